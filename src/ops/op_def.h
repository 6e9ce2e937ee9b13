#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace monograph::ops {

class Builder;
struct Division;
struct DivisionContext;
struct OpDef;

enum class AttributeKind { kBool, kInt, kFloat, kString, kInts, kDType, kShapes };
std::string_view kind_name(AttributeKind kind);  // "ints"

struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  bool is_optional = false;
};

// What holds for every node of an op. A pass asks for a trait, never for a list of names.
enum Trait : uint32_t {
  kPointwise = 1u << 0,    // one result; element i depends on element i of the (broadcast) operands
  kReduction = 1u << 1,    // reduces attribute `axes`, `keepdim`; associative up to rounding
  kViewLike = 1u << 2,     // results are operand 0 (or its parts) seen through other strides
  kGather = 1u << 3,       // results hold the operands' elements, placed next to each other
  kCommutative = 1u << 4,  // operands may be swapped
  kCreation = 1u << 5,    // no tensor is read: the element is a function of its index (and scalars)
  kLibrary = 1u << 6,     // runs as a library call, never inside a generated kernel
  kCollective = 1u << 7,  // all ranks of a mesh axis run it together, in the same order
  kStart = 1u << 8,       // begins a collective; its result is complete, and read, through its done
  kInPlace = 1u << 9,     // the result lies over the operands, which nobody else may read
  kDone = 1u << 10,       // waits for the collective that its operand has begun
};

// The types and attributes that a node is made with; `fail` throws UserError "[op] ...".
struct InferContext {
  const OpDef& op;
  std::span<const ir::TensorType> operands;
  const ir::Attributes& attributes;

  const ir::Shape& shape(int operand) const { return operands[operand].shape; }
  template <typename T>
  const T& attribute(const std::string& name) const {
    return std::get<T>(attributes.at(name));
  }
  // Attribute `name` as an axis of operand 0: 0..rank-1. A negative axis is the frontend's to
  // resolve, so that equal nodes have equal attributes.
  int axis(const std::string& name) const;
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_with(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_with(const std::string& message) const;
};

struct Cost {
  double flops = 0;
  double bytes = 0;  // least bytes to move: each operand once, each result once
};

// How random sample elements are drawn.
struct SampleOperand {
  ir::TensorType type;
  double low = -1, high = 1;  // uniform; integers in [low, high]
};

// A use of the op that must work: reference = compiled code, and gradient = finite differences.
struct Sample {
  std::vector<SampleOperand> operands;
  ir::Attributes attributes;
  bool check_gradient = true;  // off where the op is not differentiable at sampled points
};

// A use of the op that must be refused, with a part of the message expected.
struct BadSample {
  std::vector<ir::TensorType> operands;
  ir::Attributes attributes;
  std::string message;
};

using Literals = std::span<const ir::Literal* const>;

struct OpDef {
  std::string_view name;
  std::string_view doc;
  std::vector<std::string_view> operands;  // a last name ending in "..." takes one or more
  std::vector<AttributeSpec> attributes;
  uint32_t traits = 0;

  // Types of the results; UserError naming the op, what was given and what is allowed.
  std::vector<ir::TensorType> (*infer)(const InferContext& context) = nullptr;
  // Slow obvious loops over the operands' literals; results come typed and zeroed.
  void (*reference)(const ir::Node& node, Literals operands,
                    std::span<ir::Literal> results) = nullptr;
  // Cotangents of the operands (null: none) from those of the results (null: zero). Null function:
  // not differentiable. Broadcasting need not be undone: autodiff sums to the operand's shape.
  std::vector<ir::Value> (*gradient)(Builder& builder, ir::Node& node,
                                     std::span<const ir::Value> cotangents) = nullptr;
  // Null: each operand and result moves once, one flop an element of the results.
  Cost (*cost)(const ir::Node& node) = nullptr;
  // How ranks that have parts of the operands divide the work (ops/division.h). Null: pointwise ops
  // as divide_pointwise() has it, others not at all.
  std::optional<Division> (*placements)(const DivisionContext& context) = nullptr;
  std::vector<Sample> (*samples)() = nullptr;
  std::vector<BadSample> (*bad_samples)() = nullptr;

  bool has(Trait trait) const { return (traits & trait) != 0; }
  bool is_variadic() const { return !operands.empty() && operands.back().ends_with("..."); }
};

Cost cost_of(const ir::Node& node);

}  // namespace monograph::ops
