#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "frontend/trace/tensor.h"
#include "ir/literal.h"

// Places where a traced function leaves the graph: what it reads or does on the host while it runs.
namespace monograph::trace {

// Gets the elements of the operands, returns the elements of the results.
using HostFunction = std::function<std::vector<ir::Literal>(std::span<const ir::Literal>)>;

// An op that the registry has not, and the host does: emit(NAME, ...) of it is a graph break.
struct HostOp {
  std::function<std::vector<ir::TensorType>(std::span<const ir::TensorType>)> types;  // of results
  HostFunction function;
};
using HostOps = std::map<std::string, HostOp, std::less<>>;  // by name

// One such place, in the order in which the function comes to it: a graph break.
struct HostRead {
  enum class Kind { kItem, kIsTrue, kPrint, kCall };
  Kind kind = Kind::kItem;
  std::vector<ir::Value> operands;
  std::vector<ir::Node*> results;  // kCall: placeholders that stand for what the function returns
  HostFunction function;           // kCall, kPrint
  ir::Provenance place;
  std::string op = {};  // of a HostOp

  bool is_number() const { return kind == Kind::kItem || kind == Kind::kIsTrue; }
  std::string reason() const;  // "item() reads a value of f32[] on the host"
  std::string advice() const;  // what to write instead
};

// What reading gave. A number is compiled into the rest of the graph; literals enter it as inputs.
struct HostValue {
  double number = 0;                  // kItem, kIsTrue
  std::vector<ir::Literal> literals;  // kCall
};

// What the host makes of the operands' elements. UserError when a function returns other types than
// it was declared with.
HostValue perform(const HostRead& read, std::span<const ir::Literal> operands);

// Prints `label: type elements` on stdout at each step.
void print(const std::string& label, const Tensor& tensor, Location where = Location::current());

// Calls `function` on the host at each step with the elements of the operands; gives tensors of the
// types `results`. No gradient flows through it: UserError when an operand depends on a trainable
// parameter and is not detached.
std::vector<Tensor> host_call(HostFunction function, const std::vector<Tensor>& operands,
                              std::vector<ir::TensorType> results,
                              Location where = Location::current());

// The same for an op of CompileOptions::host_ops; numbers are no operands of it.
std::vector<Tensor> call_host_op(const std::string& name, const HostOp& op,
                                 const std::vector<TensorArgument>& operands, Location where);

}  // namespace monograph::trace
