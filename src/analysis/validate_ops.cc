#include "analysis/validate_ops.h"

#include <optional>

#include "base/error.h"
#include "ir/printer.h"
#include "ops/registry.h"

namespace monograph::analysis {
namespace {

struct Fault {
  const char* code = nullptr;
  std::string message;
};

std::string types_text(const std::vector<ir::TensorType>& types) {
  std::string text;
  for (const ir::TensorType& type : types) text += (text.empty() ? "" : ", ") + type.str();
  return text;
}

bool takes(const ops::OpDef& op, size_t num_operands) {
  return op.is_variadic() ? num_operands >= op.operands.size() : num_operands == op.operands.size();
}

Fault fault_of(const ir::Node& node) {
  const ops::OpDef* op = ops::op_of(node);
  try {
    if (op == nullptr) ops::op_named(node.op());  // throws, with the nearest op's name
    std::vector<ir::TensorType> operands;
    for (const ir::Value operand : node.operands()) operands.push_back(operand.type());
    const auto inferred = ops::infer_types(*op, operands, node.attributes());
    if (inferred == node.types()) return {};
    return {"V1.23", fmt::format("{} infers ({}): give the node these types", node.op(),
                                 types_text(inferred))};
  } catch (const UserError& error) {
    if (op == nullptr) return {"V1.20", error.what()};
    return {takes(*op, node.operands().size()) ? "V1.22" : "V1.21", error.what()};
  }
}

}  // namespace

bool OpValidator::is_known(const ir::Node& node) {
  key_.clear();
  key_.add(std::string_view(node.op()));
  key_.add(int64_t{node.num_operands()});
  for (const ir::Value operand : node.operands()) key_.add(operand.type());
  key_.add(node.attributes());
  for (const ir::TensorType& type : node.types()) key_.add(type);
  return right_.contains(key_.view());
}

std::vector<ir::Violation> OpValidator::run(const ir::Graph& graph) {
  std::vector<ir::Violation> violations;
  std::optional<ir::ValueNames> names;  // made when there is something to say
  const auto name = [&]() -> const ir::ValueNames& {
    return names ? *names : names.emplace(graph);
  };
  for (const auto& node : graph.nodes()) {
    if (node->is_placeholder()) continue;
    if (node->body() != nullptr) {
      for (ir::Violation& inside : run(*node->body())) {
        inside.message = fmt::format("body of {}: {}", name()(node->result()), inside.message);
        violations.push_back(std::move(inside));
      }
      continue;
    }
    if (is_known(*node)) continue;
    const Fault fault = fault_of(*node);
    if (fault.code == nullptr) {
      right_.emplace(key_.view());
      continue;
    }
    violations.push_back(
        {fault.code, node.get(), fmt::format("{}: {}", to_text(*node, name()), fault.message)});
  }
  return violations;
}

std::vector<ir::Violation> validate_ops(const ir::Graph& graph) {
  return OpValidator().run(graph);
}

}  // namespace monograph::analysis
