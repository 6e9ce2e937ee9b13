#include "ops/collective/collective.h"

#include <algorithm>

#include "ir/mesh.h"
#include "ops/collective/compression.h"
#include "ops/registry.h"
#include "ops/shape/packing.h"

namespace monograph::ops {
namespace {

std::vector<ir::TensorType> infer_done(const InferContext& context) {
  return {context.operands[0]};
}

}  // namespace

std::vector<AttributeSpec> collective_attributes(std::vector<AttributeSpec> more) {
  std::vector<AttributeSpec> specs = {{"axis", AttributeKind::kString},
                                      {"size", AttributeKind::kInt}};
  specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

void check_collective(const InferContext& context) {
  const auto size = context.attribute<int64_t>("size");
  if (context.attribute<std::string>("axis").empty() || size < 1) {
    context.fail("axis '{}' of {} ranks: name a mesh axis, and give its size",
                 context.attribute<std::string>("axis"), size);
  }
  for (const ir::TensorType& x : context.operands) {
    if (x.dtype != ir::DType::kBool && x.dtype != ir::DType::kU16) continue;
    context.fail("{} is not exchanged: convert it to u8 or i32", x.str());
  }
}

void check_reduction(const InferContext& context) {
  const auto& op = context.attribute<std::string>("op");
  if (op == "sum" || op == "max" || op == "min") return;
  context.fail("op '{}': use sum, max or min (a mean is a sum and a multiplication)", op);
}

void check_compression(const InferContext& context) {
  const auto found = context.attributes.find("compress");
  if (found == context.attributes.end()) return;
  const Compression compression = parse_compression(std::get<std::string>(found->second));
  const bool is_sum = context.attribute<std::string>("op") == "sum";
  if (compression.is_on() && is_sum && context.operands[0].dtype == ir::DType::kF32 &&
      context.attributes.contains("gradient")) {
    return;
  }
  context.fail(
      "compress '{}' of {} by op {}: it takes an f32 sum and the attribute gradient, a name",
      compression.str(), context.operands[0].str(), context.attribute<std::string>("op"));
}

void check_divides(const InferContext& context) {
  const auto size = context.attribute<int64_t>("size");
  const ir::Shape& shape = context.shape(0);
  if (shape.rank() > 0 && shape[0] % size == 0) return;
  context.fail("{} for {} ranks: the first dim must be a multiple of them",
               context.operands[0].str(), size);
}

ir::Shape with_first_dim(const ir::Shape& shape, int64_t dim) {
  std::vector<int64_t> dims = shape.dims();
  dims[0] = dim;
  return ir::Shape(std::move(dims));
}

void check_one_rank(const ir::Node& node) {
  const auto size = node.attribute<int64_t>("size");
  if (size == 1) return;
  throw_user_error("[{}] runs over axis '{}' of {} ranks: give the mesh that it runs on", node.op(),
                   node.attribute<std::string>("axis"), size);
}

void one_rank_reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  check_one_rank(node);
  results[0] = *operands[0];
}

ir::Attributes same_axis(const ir::Node& node) {
  return {{"axis", node.attributes().at("axis")}, {"size", node.attributes().at("size")}};
}

ir::Attributes same_axis(const ir::Node& node, std::string_view op) {
  ir::Attributes attributes = same_axis(node);
  attributes["op"] = std::string(op);
  return attributes;
}

std::optional<Division> divide_collective(const DivisionContext& c, bool moves_rows) {
  const ir::Placement& x = c.given[0];
  const auto& axis = c.node.attribute<std::string>("axis");
  // Other stages do not know how a value lies on this one: it goes as a whole.
  const bool is_other_axis = axis != c.axis && axis != ir::kPipelineAxis;
  const bool is_elementwise = x.is_packed() || (x.is_shard() && !(moves_rows && x.dim == 0));
  if (!is_other_axis || !is_elementwise) return {};
  std::vector<ir::Placement> operands(c.node.num_operands());  // a coordinate is the same for all
  operands[0] = x;
  return c.of(std::move(operands), x);
}

ir::CollectiveStep collective_step(const ir::Node& node) {
  using Kind = ir::CollectiveStep::Kind;
  using Reduction = ir::CollectiveStep::Reduction;
  ir::CollectiveStep step;
  for (Kind kind : {Kind::kAllReduce, Kind::kBroadcast, Kind::kAllGather, Kind::kReduceScatter,
                    Kind::kAllToAll, Kind::kSend, Kind::kRecv}) {
    const std::string_view name = kind_name(kind);
    if (node.is(name) || node.op() == fmt::format("{}_start", name)) step.kind = kind;
  }
  const auto reduction = node.attribute_or("op", std::string("sum"));
  for (Reduction each : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    if (reduction == reduction_name(each)) step.reduction = each;
  }
  step.axis = node.attribute<std::string>("axis");
  step.size = node.attribute<int64_t>("size");
  step.root = node.attribute_or(step.is_transfer() ? "peer" : "root", int64_t{0});
  const ir::TensorType& moved = step.kind == Kind::kSend ? node.operand(0).type() : node.types()[0];
  step.dtype = moved.dtype;
  step.count = moved.num_elements();
  if (step.has_parts() && step.kind != Kind::kReduceScatter) step.count /= step.size;
  if (node.is("all_reduce_start")) step.num_tensors = node.num_operands();
  return step;
}

void copy_range(const ir::Node& start, Literals operands, ir::Literal& result) {
  const auto alignment = start.attribute<int64_t>("alignment");
  const auto begin = start.attribute<int64_t>("begin");
  const int64_t end = begin + result.num_elements();
  const int64_t element_bytes = ir::dtype_bytes(result.type().dtype);
  int64_t first = 0;  // of the operand, in the packed range
  for (const ir::Literal* x : operands) {
    const int64_t from = std::max(begin, first), to = std::min(end, first + x->num_elements());
    if (from < to) {
      std::copy_n(x->data() + (from - first) * element_bytes, (to - from) * element_bytes,
                  result.data() + (from - begin) * element_bytes);
    }
    first += padded_elements(x->num_elements(), alignment);
  }
}

std::vector<Sample> samples_collective(ir::Attributes attributes, bool check_gradient) {
  attributes["axis"] = std::string("data");
  attributes["size"] = int64_t{1};
  const auto sample = [&](ir::DType dtype, bool check) {
    return Sample{
        .operands = {{{dtype, {4, 3}}, -2, 2}}, .attributes = attributes, .check_gradient = check};
  };
  return {sample(ir::DType::kF32, check_gradient), sample(ir::DType::kF64, check_gradient),
          sample(ir::DType::kBF16, false), sample(ir::DType::kI64, false)};
}

std::vector<BadSample> bad_samples_collective(ir::Attributes attributes) {
  const ir::TensorType x{ir::DType::kF32, {4}};
  attributes["axis"] = std::string("data");
  attributes["size"] = int64_t{0};
  ir::Attributes two = attributes, no_axis = attributes;
  two["size"] = int64_t{2};
  no_axis["axis"] = std::string();
  return {{{x}, attributes, "axis 'data' of 0 ranks: name a mesh axis, and give its size"},
          {{x}, no_axis, "axis '' of 0 ranks"},
          {{{ir::DType::kBool, {4}}}, two, "bool[4] is not exchanged: convert it to u8 or i32"},
          {{x, x, x}, two, "operands given: it takes"}};
}

OpDef done_op(std::string_view name) {
  return {
      .name = name,
      .doc = "What the collective that x has begun gives; waits until it is complete.",
      .operands = {"x"},
      .attributes = {},
      .traits = kViewLike | kDone,
      .infer = infer_done,
      .reference = [](const ir::Node&, Literals operands,
                      std::span<ir::Literal> results) { results[0] = *operands[0]; },
      .samples =
          [] {
            return std::vector<Sample>{{.operands = {{{ir::DType::kF32, {4, 3}}}},
                                        .attributes = {},
                                        .check_gradient = false}};
          },
      .bad_samples =
          [] {
            return std::vector<BadSample>{{{}, {}, "0 operands given: it takes 1 (x)"}};
          },
  };
}

}  // namespace monograph::ops
