#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/flat_unit.h"
#include "ir/graph.h"
#include "ir/pipeline.h"
#include "ir/tensor_shard.h"

namespace monograph::trace {

// How a state begins. Normal and uniform elements are functions of (seed, state name, element
// index) by Philox: adding a layer changes no other layer's beginning.
struct Initializer {
  enum class Kind { kConstant, kNormal, kUniform, kFunction };
  Kind kind = Kind::kConstant;
  double a = 0;                                 // the constant; the mean; the lower end
  double b = 0;                                 // unused; the standard deviation; the upper end
  std::function<double(int64_t)> element = {};  // kFunction: of the index in row-major order

  static Initializer constant(double value) { return {Kind::kConstant, value, 0, {}}; }
  static Initializer normal(double mean, double deviation) {
    return {Kind::kNormal, mean, deviation, {}};
  }
  static Initializer uniform(double low, double high) { return {Kind::kUniform, low, high, {}}; }

  // A table, like that of rotary positions.
  static Initializer function(std::function<double(int64_t)> element) {
    return {Kind::kFunction, 0, 0, std::move(element)};
  }

  bool is_zero() const { return kind == Kind::kConstant && a == 0; }
  ir::Literal make(const ir::TensorType& type, std::string_view name, int64_t seed) const;
};

// A named tensor that lives from step to step: a parameter, an optimizer moment or a buffer. A
// handle: copies are the same state. It holds no elements; a session does, by name.
class State {
 public:
  State(std::string name, ir::TensorType type, ir::StateRole role, Initializer initializer);
  // A moment, that begins with zeros, of a parameter: "optimizer.m." + its name. It goes where the
  // parameter goes.
  static State moment_of(const State& parameter, const std::string& prefix, ir::DType dtype);

  const std::string& name() const { return data_->name; }
  const ir::TensorType& type() const { return data_->type; }
  const ir::Shape& shape() const { return data_->type.shape; }
  ir::StateRole role() const { return data_->role; }
  const Initializer& initializer() const { return data_->initializer; }
  void set_initializer(Initializer initializer) { data_->initializer = initializer; }

  // A frozen parameter gets no gradient. Functions compiled before are traced again.
  void freeze(bool is_frozen = true) { *data_->frozen = is_frozen; }
  std::shared_ptr<const bool> frozen() const { return data_->frozen; }

  // The flat range that the parameter, or that of which this is a moment, has a place in (see
  // nn::fully_shard); null: none.
  const std::shared_ptr<const ir::FlatUnit>& flat_unit() const { return data_->sharding->unit; }
  // Where it lies in the unit, and what its name has before the parameter's.
  int unit_index() const { return data_->sharding->index; }
  const std::string& prefix() const { return data_->prefix; }
  // Of which dim each rank of an axis has a part (see nn::tensor_parallel); none: all have it as a
  // whole. `divide`: UserError when it is divided already, or has a place in a unit.
  const std::optional<ir::TensorShard>& tensor_shard() const { return data_->sharding->shard; }
  void divide(const ir::TensorShard& shard);
  ir::TensorType part_type() const;  // of one rank
  // The pipeline (see nn::pipeline) on some of whose ranks alone it is, and which, ascending; null:
  // all have it. `put_on`: UserError when it is in a pipeline already, or in a unit.
  const std::shared_ptr<const ir::Pipeline>& pipeline() const { return data_->sharding->pipeline; }
  const std::vector<int>& pipeline_ranks() const { return data_->sharding->ranks; }
  void put_on(std::shared_ptr<const ir::Pipeline> pipeline, std::vector<int> ranks);
  // UserError when it has a place already.
  void put_into(std::shared_ptr<const ir::FlatUnit> unit, int index);

  bool is_same(const State& other) const { return data_ == other.data_; }

 private:
  struct Sharding {
    std::shared_ptr<const ir::FlatUnit> unit;
    int index = 0;
    std::optional<ir::TensorShard> shard;
    std::shared_ptr<const ir::Pipeline> pipeline;
    std::vector<int> ranks;
  };
  struct Data {
    std::string name;
    ir::TensorType type;
    ir::StateRole role;
    Initializer initializer;
    std::shared_ptr<bool> frozen;
    std::string prefix = {};
    std::shared_ptr<Sharding> sharding = std::make_shared<Sharding>();
  };
  std::shared_ptr<Data> data_;
};

using Parameter = State;  // of role kParameter

// The flat ranges that have places for any of the states.
std::vector<ir::FlatStates> flat_states_of(const std::vector<State>& states);

}  // namespace monograph::trace
