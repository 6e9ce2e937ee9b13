#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace monograph::ir {

// State "mesh.AXIS": the place of this rank on a mesh axis; set by the session, never saved.
inline constexpr std::string_view kCoordinatePrefix = "mesh.";

// The axis whose ranks have stages of a pipeline, or functions of their own: their steps differ,
// while those of all ranks at one place on it are the same.
inline constexpr std::string_view kPipelineAxis = "pp";

// The ranks of a job as a grid with named axes, "mesh(data=2, tensor=4)"; the last axis changes
// fastest with the rank. A graph names axes only: a rank enters as coordinates when it is run.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int64_t size = 1;
    bool operator==(const Axis&) const = default;
  };

  Mesh() = default;  // of one rank
  // UserError for a name that is empty or stands twice, or a size below 1.
  explicit Mesh(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  int64_t num_ranks() const;
  bool has(std::string_view axis) const;
  int64_t size(std::string_view axis) const;  // UserError names the axes
  bool has_stages() const { return has(kPipelineAxis) && size(kPipelineAxis) > 1; }
  int64_t stage(int64_t rank) const;  // its place on kPipelineAxis; 0 without that
  std::vector<int> ranks_of_stage(int64_t stage) const;  // ascending
  // One number an axis. UserError for a rank outside 0..num_ranks()-1.
  std::vector<int64_t> coordinates(int64_t rank) const;
  // The ranks that differ from this one in the axis only, by coordinate: a collective over the axis
  // is theirs.
  std::vector<int64_t> group(std::string_view axis, int64_t rank) const;
  // The axes whose ranks have parts of the batch of their own: "data", "dp" and "fsdp".
  std::vector<std::string> batch_axes() const;
  // Which part of the batch is the rank's, of how many.
  std::pair<int64_t, int64_t> batch_part(int64_t rank) const;
  std::string str() const;
  bool operator==(const Mesh&) const = default;

 private:
  size_t index(std::string_view axis) const;
  std::vector<Axis> axes_;
};

}  // namespace monograph::ir
