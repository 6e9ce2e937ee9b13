#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ir/graph.h"

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

  const std::string& name() const { return data_->name; }
  const ir::TensorType& type() const { return data_->type; }
  const ir::Shape& shape() const { return data_->type.shape; }
  ir::StateRole role() const { return data_->role; }
  const Initializer& initializer() const { return data_->initializer; }
  void set_initializer(Initializer initializer) { data_->initializer = initializer; }

  // A frozen parameter gets no gradient. Functions compiled before are traced again.
  void freeze(bool is_frozen = true) { *data_->frozen = is_frozen; }
  std::shared_ptr<const bool> frozen() const { return data_->frozen; }

  bool is_same(const State& other) const { return data_ == other.data_; }

 private:
  struct Data {
    std::string name;
    ir::TensorType type;
    ir::StateRole role;
    Initializer initializer;
    std::shared_ptr<bool> frozen;
  };
  std::shared_ptr<Data> data_;
};

using Parameter = State;  // of role kParameter

}  // namespace monograph::trace
