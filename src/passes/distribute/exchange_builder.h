#pragma once

#include <string>
#include <vector>

#include "ops/builder.h"
#include "ops/collective/compression.h"

namespace monograph::passes {

// Gradients that ranks of a mesh axis exchange together: f32, any shapes.
struct Exchange {
  struct Gradient {
    std::string name;
    ir::Value value;
    int64_t num_elements() const { return value.type().num_elements(); }
  };
  std::string axis;
  int64_t size = 1;  // ranks
  ops::Compression compression;
  std::vector<Gradient> gradients;

  std::string name_of(const Gradient& gradient) const { return axis + "." + gradient.name; }
};

// Appends the nodes of an exchange, and counts the bytes that a rank sends for it.
class ExchangeBuilder {
 public:
  ExchangeBuilder(ops::Builder& build, const Exchange& exchange)
      : build_(build), exchange_(exchange) {}

  ops::Builder& build() { return build_; }
  int64_t sent_bytes() const { return sent_bytes_; }

  ir::Value all_reduce(ir::Value x) { return collective("all_reduce", x, "sum"); }
  ir::Value all_gather(ir::Value x) { return collective("all_gather", x, ""); }
  ir::Value all_to_all(ir::Value x) { return collective("all_to_all", x, ""); }

  // Uniform in [0, 1), new ones for each step, other ones on each rank of the axis, or the same.
  enum class Draw { kOfRank, kOfAll };
  ir::Value uniform(const std::string& stream, const ir::Shape& shape, Draw draw);

  // A state, zero at first, by prefix and the gradient's name; the same one when asked again.
  ir::Value state(std::string_view prefix, const Exchange::Gradient& gradient, ir::TensorType type);
  void update(ir::Value state, ir::Value next) { build_.graph().set_update(state.node, next); }

  ir::Value flat(ir::Value x) { return build_.reshape(x, {x.type().num_elements()}); }
  ir::Value cat(std::vector<ir::Value> parts, int64_t axis = 0);
  ir::Value slice(ir::Value x, int64_t axis, int64_t start, int64_t end);
  ir::Value floor(ir::Value x);  // of numbers from 0
  // Cuts what `cat` of the flat gradients has made into their shapes. Each begins at a multiple of
  // `alignment`.
  std::vector<ir::Value> unflatten(ir::Value flat, int64_t alignment = 1);

 private:
  ir::Value collective(std::string_view op, ir::Value x, std::string_view reduction);
  ir::Value placeholder(const std::string& name, ir::TensorType type);

  ops::Builder& build_;
  const Exchange& exchange_;
  int64_t sent_bytes_ = 0;
};

}  // namespace monograph::passes
