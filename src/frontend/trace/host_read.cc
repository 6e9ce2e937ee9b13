#include "frontend/trace/host_read.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "frontend/trace/trace.h"

namespace monograph::trace {
namespace {

[[noreturn]] void refuse(const Location& where, const std::string& message) {
  throw_user_error("{}\n  at {}:{}", message, where.file_name(), where.line());
}

// The trainable parameter that the value depends on by a path without detach; null: none.
const ir::Node* find_parameter(ir::Value value) {
  std::vector<const ir::Node*> open = {value.node};
  std::unordered_set<const ir::Node*> seen;
  while (!open.empty()) {
    const ir::Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second || node->is("detach")) continue;
    if (node->is("state") && node->attribute<std::string>("role") == "parameter") return node;
    for (ir::Value operand : node->operands()) open.push_back(operand.node);
  }
  return nullptr;
}

std::string text_of(const ir::Literal& literal) {
  constexpr int64_t kMost = 8;
  std::string text = literal.type().str();
  const int64_t count = literal.num_elements();
  for (int64_t i = 0; i < std::min(count, kMost); ++i) text += fmt::format(" {:g}", literal.get(i));
  return count > kMost ? text + " ..." : text;
}

}  // namespace

std::string HostRead::reason() const {
  const std::string type = operands.empty() ? "nothing" : operands[0].type().str();
  switch (kind) {
    case Kind::kItem:
      return fmt::format("item() reads the value of {} on the host", type);
    case Kind::kIsTrue:
      return fmt::format("is_true() branches on the value of {} on the host", type);
    case Kind::kPrint:
      return fmt::format("print() shows the elements of {} on the host", type);
    case Kind::kCall:
      if (!op.empty()) return fmt::format("op '{}' is not registered and runs on the host", op);
      return "host_call() runs a function on the host";
  }
  return "";
}

std::string HostRead::advice() const {
  switch (kind) {
    case Kind::kItem:
      return "keep it a tensor: a scalar tensor broadcasts wherever a number may stand; a number "
             "of "
             "trips: while_loop(); or return it and read it after the step";
    case Kind::kIsTrue:
      return "use where(condition, a, b) or cond(condition, then, otherwise, {...}), which stay in "
             "the graph";
    case Kind::kPrint:
      return "return the tensor as an output and print it after the step";
    case Kind::kCall:
      return "write it with ops, or call it before or after the step";
  }
  return "";
}

HostValue perform(const HostRead& read, std::span<const ir::Literal> operands) {
  HostValue value;
  if (read.kind == HostRead::Kind::kItem) value.number = operands[0].get(0);
  if (read.kind == HostRead::Kind::kIsTrue) value.number = operands[0].get(0) != 0 ? 1 : 0;
  if (read.function) value.literals = read.function(operands);
  const bool fits = std::equal(
      value.literals.begin(), value.literals.end(), read.results.begin(), read.results.end(),
      [](const ir::Literal& given, ir::Node* node) { return given.type() == node->types()[0]; });
  if (fits) return value;
  std::string expected, given;
  for (const ir::Node* node : read.results) expected += " " + node->types()[0].str();
  for (const ir::Literal& literal : value.literals) given += " " + literal.type().str();
  throw_user_error("the host function at {}:{} was declared to return{}, it returned{}",
                   read.place.file, read.place.line, expected, given.empty() ? " nothing" : given);
}

double Tensor::item(Location where) const {
  if (type().num_elements() != 1) {
    refuse(where, fmt::format("[item] {} has {} elements: reduce it to one, or return it",
                              type().str(), type().num_elements()));
  }
  return trace().read_on_host({HostRead::Kind::kItem, {value_}, {}, {}, {}}, where).number;
}

bool Tensor::is_true(Location where) const {
  if (type().num_elements() != 1) {
    refuse(where, fmt::format("[is_true] {} has {} elements: reduce it to one first", type().str(),
                              type().num_elements()));
  }
  return trace().read_on_host({HostRead::Kind::kIsTrue, {value_}, {}, {}, {}}, where).number != 0;
}

void print(const std::string& label, const Tensor& tensor, Location where) {
  const HostFunction show = [label](std::span<const ir::Literal> operands) {
    fmt::print("{}: {}\n", label, text_of(operands[0]));
    return std::vector<ir::Literal>();
  };
  tensor.trace().read_on_host({HostRead::Kind::kPrint, {tensor.value()}, {}, show, {}}, where);
}

namespace {

std::vector<Tensor> call(HostRead read, const std::string& name,
                         const std::vector<Tensor>& operands, std::vector<ir::TensorType> results,
                         const Location& where) {
  if (operands.empty()) refuse(where, fmt::format("[{}] needs at least one tensor", name));
  Trace& trace = operands[0].trace();
  for (const Tensor& operand : operands) {
    if (const ir::Node* parameter = find_parameter(operand.value())) {
      refuse(where, fmt::format("[{}] an operand depends on parameter '{}', and no gradient flows "
                                "through the host: detach() it",
                                name, parameter->name()));
    }
    read.operands.push_back(operand.value());
  }
  std::vector<Tensor> tensors;
  for (ir::TensorType& type : results) {
    const std::string input =
        fmt::format("host.{}.{}", trace.host_reads().size(), read.results.size());
    tensors.push_back(trace.input(input, std::move(type)));
    read.results.push_back(tensors.back().value().node);
  }
  trace.read_on_host(std::move(read), where);
  return tensors;
}

}  // namespace

std::vector<Tensor> host_call(HostFunction function, const std::vector<Tensor>& operands,
                              std::vector<ir::TensorType> results, Location where) {
  HostRead read{HostRead::Kind::kCall, {}, {}, std::move(function), {}};
  return call(std::move(read), "host_call", operands, std::move(results), where);
}

std::vector<Tensor> call_host_op(const std::string& name, const HostOp& op,
                                 const std::vector<TensorArgument>& operands, Location where) {
  std::vector<Tensor> tensors;
  std::vector<ir::TensorType> types;
  for (const TensorArgument& operand : operands) {
    if (operand.tensor() == nullptr) {
      refuse(where, fmt::format("[{}] runs on the host and takes tensors only", name));
    }
    tensors.push_back(*operand.tensor());
    types.push_back(operand.tensor()->type());
  }
  HostRead read{HostRead::Kind::kCall, {}, {}, op.function, {}};
  read.op = name;
  return call(std::move(read), name, tensors, op.types(types), where);
}

}  // namespace monograph::trace
