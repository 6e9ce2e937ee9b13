#include "ops/registry.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/error.h"

namespace monograph::ops {
namespace {

AttributeKind kind_of(const ir::Attribute& attribute) {
  constexpr AttributeKind kKinds[] = {
      AttributeKind::kBool, AttributeKind::kInt,   AttributeKind::kFloat, AttributeKind::kString,
      AttributeKind::kInts, AttributeKind::kDType, AttributeKind::kShapes};
  return kKinds[attribute.index()];
}

void check_arity(const InferContext& context) {
  const OpDef& op = context.op;
  const size_t given = context.operands.size();
  const size_t declared = op.operands.size();
  if (op.is_variadic() ? given >= declared : given == declared) return;
  context.fail("{} operands given: it takes {}{} ({})", given, op.is_variadic() ? "at least " : "",
               declared, fmt::join(op.operands, ", "));
}

void check_attributes(const InferContext& context) {
  const OpDef& op = context.op;
  std::vector<std::string_view> names;
  for (const AttributeSpec& spec : op.attributes) names.push_back(spec.name);
  for (const auto& [name, value] : context.attributes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      context.fail("unknown attribute '{}': use {}", name,
                   names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
  }
  for (const AttributeSpec& spec : op.attributes) {
    const auto found = context.attributes.find(std::string(spec.name));
    const std::string_view kind = kind_name(spec.kind);
    if (found == context.attributes.end() && spec.is_optional) continue;
    if (found == context.attributes.end()) {
      context.fail("attribute '{}' ({}) is missing: give it", spec.name, kind);
    }
    if (kind_of(found->second) != spec.kind) {
      context.fail("attribute '{}' is of kind {}: give a value of kind {}", spec.name,
                   kind_name(kind_of(found->second)), kind);
    }
  }
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Of names that differ at an end, as those of ops do: nodes are looked up again and again.
struct EndsHash {
  size_t operator()(std::string_view name) const {
    uint64_t first = 0, last = 0;
    const size_t length = std::min(name.size(), sizeof first);
    std::memcpy(&first, name.data(), length);
    std::memcpy(&last, name.data() + name.size() - length, length);
    return (first * 0x9E3779B97F4A7C15u) ^ (last + name.size());
  }
};

}  // namespace

std::string_view kind_name(AttributeKind kind) {
  constexpr std::string_view kNames[] = {"bool", "int",   "float", "string",
                                         "ints", "dtype", "shapes"};
  return kNames[static_cast<size_t>(kind)];
}

int InferContext::axis(const std::string& name) const {
  const int64_t given = attribute<int64_t>(name);
  const int rank = shape(0).rank();
  if (given < 0 || given >= rank) {
    fail("{} {} out of range for {}: use 0..{}", name, given, operands[0].str(), rank - 1);
  }
  return static_cast<int>(given);
}

void InferContext::fail_with(const std::string& message) const {
  throw_user_error("[{}] {}", op.name, message);
}

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> ops = {
#define MONOGRAPH_OP(name) &defs::name##_op,
#include "ops/op_list.inc"
#undef MONOGRAPH_OP
  };
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpDef*, EndsHash> by_name;
    for (const OpDef* op : all_ops()) by_name.emplace(op->name, op);
    return by_name;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

const OpDef& op_named(std::string_view name) {
  if (const OpDef* op = find_op(name)) return *op;
  const OpDef* nearest =
      *std::min_element(all_ops().begin(), all_ops().end(), [&](const OpDef* a, const OpDef* b) {
        return edit_distance(name, a->name) < edit_distance(name, b->name);
      });
  throw_user_error("unknown op '{}': the nearest is '{}'; docs/ops.md lists all {}", name,
                   nearest->name, all_ops().size());
}

std::vector<ir::TensorType> infer_types(const OpDef& op, std::span<const ir::TensorType> operands,
                                        const ir::Attributes& attributes) {
  const InferContext context{op, operands, attributes};
  check_arity(context);
  check_attributes(context);
  return op.infer(context);
}

Cost cost_of(const ir::Node& node) {
  const OpDef* op = op_of(node);
  if (op != nullptr && op->cost != nullptr) return op->cost(node);
  Cost cost;
  for (ir::Value operand : node.operands()) {
    cost.bytes += static_cast<double>(operand.type().num_bytes());
  }
  for (const ir::TensorType& type : node.types()) {
    cost.bytes += static_cast<double>(type.num_bytes());
    cost.flops += static_cast<double>(type.num_elements());
  }
  return cost;
}

}  // namespace monograph::ops
