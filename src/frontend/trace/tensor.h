#pragma once

#include <concepts>
#include <memory>
#include <source_location>
#include <variant>
#include <vector>

#include "frontend/trace/state.h"
#include "ir/graph.h"

namespace monograph::trace {

class Gradients;
class Trace;

using Location = std::source_location;
using Axes = std::vector<int64_t>;

// A tensor of a step being traced: it has a type, and no elements. Ops on it (functions.h) append
// nodes to its trace. Axes may be negative, counted from the last. Each throws UserError, with
// file:line, where the op refuses its operands.
class Tensor {
 public:
  Tensor() = default;  // no tensor
  Tensor(std::shared_ptr<Trace> trace, ir::Value value) : trace_(std::move(trace)), value_(value) {}

  explicit operator bool() const { return trace_ != nullptr; }
  Trace& trace() const;  // UserError when this is no tensor
  ir::Value value() const { return value_; }
  const ir::TensorType& type() const;
  const ir::Shape& shape() const { return type().shape; }
  ir::DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  int64_t dim(int axis) const;  // UserError out of range

  // One dim may be -1: what is left.
  Tensor reshape(std::vector<int64_t> dims, Location where = Location::current()) const;
  Tensor permute(Axes axes, Location where = Location::current()) const;
  Tensor transpose(int axis0, int axis1, Location where = Location::current()) const;
  Tensor expand(ir::Shape shape, Location where = Location::current()) const;
  Tensor squeeze(int axis, Location where = Location::current()) const;
  Tensor unsqueeze(int axis, Location where = Location::current()) const;
  Tensor flatten(int from = 0, int to = -1, Location where = Location::current()) const;
  // Elements from..to-1 of an axis; negative from and to count from the end.
  Tensor slice(int axis, int64_t from, int64_t to, Location where = Location::current()) const;
  // Parts of `size` along an axis, the last one smaller when it does not divide.
  std::vector<Tensor> split(int64_t size, int axis, Location where = Location::current()) const;
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int axis,
                            Location where = Location::current()) const;
  Tensor to(ir::DType dtype, Location where = Location::current()) const;
  Tensor detach(Location where = Location::current()) const;
  Tensor sum(Location where = Location::current()) const;   // of all elements
  Tensor mean(Location where = Location::current()) const;  // of all elements

  // The value, read on the host while the step runs: a graph break (host_read.h). Of one element.
  double item(Location where = Location::current()) const;
  bool is_true(Location where = Location::current()) const;

  // Appends the gradients of this scalar for every trainable parameter read so far.
  Gradients backward(Location where = Location::current()) const;

 private:
  std::shared_ptr<Trace> trace_;
  ir::Value value_;
};

template <typename T>
concept Scalar = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

// What an op takes: a tensor, a state (read into the trace of the other operands) or a number, with
// the place in the user's code where it was given. Tensors of different dtypes and numbers meet in
// one dtype as PyTorch has it (promotion.h).
class TensorArgument {
 public:
  TensorArgument(const Tensor& tensor, Location where = Location::current())
      : value_(tensor), where_(where) {}
  TensorArgument(const State& state, Location where = Location::current())
      : value_(state), where_(where) {}
  template <Scalar T>
  TensorArgument(T number, Location where = Location::current())
      : value_(static_cast<double>(number)), is_integer_(std::is_integral_v<T>), where_(where) {}

  const Location& where() const { return where_; }
  const Tensor* tensor() const { return std::get_if<Tensor>(&value_); }
  const State* state() const { return std::get_if<State>(&value_); }
  const double* number() const { return std::get_if<double>(&value_); }
  bool is_integer() const { return is_integer_; }  // a number written without a point

 private:
  std::variant<Tensor, State, double> value_;
  bool is_integer_ = false;
  Location where_;
};

}  // namespace monograph::trace
