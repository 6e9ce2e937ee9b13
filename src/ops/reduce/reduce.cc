#include "ops/reduce/reduce.h"

#include <algorithm>

#include "ops/elements.h"

namespace monograph::ops {

std::vector<ir::TensorType> infer_reduction(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const auto& axes = context.attribute<std::vector<int64_t>>("axes");
  const auto refuse = [&] {
    context.fail("axes [{}] for {}: give one or more axes in 0..{}, sorted, each once",
                 fmt::join(axes, ","), x.str(), x.shape.rank() - 1);
  };
  if (axes.empty()) refuse();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= x.shape.rank() || (i > 0 && axes[i] <= axes[i - 1])) refuse();
  }
  if (x.dtype == ir::DType::kBool) {
    context.fail("operand 'x' is {}: it takes numbers, e.g. convert(x, i64)", x.str());
  }
  const ir::Shape ones = with_ones(x.shape, axes);
  if (context.attribute<bool>("keepdim")) return {{x.dtype, ones}};
  std::vector<int64_t> dims;
  for (int axis = 0, next = 0; axis < x.shape.rank(); ++axis) {
    if (next < static_cast<int>(axes.size()) && axes[next] == axis) {
      ++next;
    } else {
      dims.push_back(x.shape[axis]);
    }
  }
  return {{x.dtype, ir::Shape(std::move(dims))}};
}

ir::Shape with_ones(const ir::Shape& shape, const std::vector<int64_t>& axes) {
  std::vector<int64_t> dims = shape.dims();
  for (int64_t axis : axes) dims[axis] = 1;
  return ir::Shape(std::move(dims));
}

std::vector<int64_t> reduced_positions(const ir::Node& node, const ir::Shape& operand) {
  const auto& axes = node.attribute<std::vector<int64_t>>("axes");
  return broadcast_positions(with_ones(operand, axes), operand);
}

std::optional<Division> divide_reduction(const DivisionContext& c,
                                         ir::Placement::Reduction reduction) {
  const ir::Placement& x = c.given[0];
  const auto rest = ir::Placement::partial(reduction);
  if (x.is_packed() && reduction == ir::Placement::Reduction::kSum) return c.of({x}, rest);
  if (!x.is_shard()) return {};
  const auto& axes = c.node.attribute<std::vector<int64_t>>("axes");
  if (std::find(axes.begin(), axes.end(), x.dim) != axes.end()) return c.of({x}, rest);
  const auto dropped =
      c.node.attribute<bool>("keepdim")
          ? 0
          : std::count_if(axes.begin(), axes.end(), [&](int64_t axis) { return axis < x.dim; });
  return c.of({x}, ir::Placement::shard(x.dim - static_cast<int>(dropped), x.blocks));
}

std::vector<Sample> samples_reduction() {
  std::vector<Sample> samples;
  const auto add = [&](ir::TensorType x, std::vector<int64_t> axes, bool keepdim, bool gradient) {
    samples.push_back({.operands = {{std::move(x), -4, 4}},
                       .attributes = {{"axes", std::move(axes)}, {"keepdim", keepdim}},
                       .check_gradient = gradient});
  };
  using ir::DType;
  add({DType::kF32, {3, 4}}, {1}, false, true);
  add({DType::kF32, {3, 4}}, {1}, true, true);
  add({DType::kF32, {3, 4}}, {0}, false, true);
  add({DType::kF32, {3, 4}}, {0, 1}, false, true);
  add({DType::kF32, {2, 3, 4}}, {0, 1}, false, true);
  add({DType::kF32, {2, 3, 4}}, {1}, true, true);
  add({DType::kF32, {2, 3, 4}}, {0, 2}, false, true);
  add({DType::kF32, {5}}, {0}, false, true);
  add({DType::kF32, {2, 70}}, {1}, true, true);
  add({DType::kBF16, {3, 33}}, {1}, false, false);
  add({DType::kI64, {3, 4}}, {1}, false, false);
  return samples;
}

std::vector<BadSample> bad_samples_reduction() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  const auto attributes = [](std::vector<int64_t> axes) {
    return ir::Attributes{{"axes", std::move(axes)}, {"keepdim", false}};
  };
  return {{{x}, attributes({2}), "axes [2] for f32[2,3]: give one or more axes in 0..1"},
          {{x}, attributes({-1}), "axes [-1] for f32[2,3]"},
          {{x}, attributes({1, 0}), "axes [1,0] for f32[2,3]"},
          {{x}, attributes({0, 0}), "axes [0,0] for f32[2,3]"},
          {{x}, attributes({}), "axes [] for f32[2,3]"},
          {{{ir::DType::kBool, {2}}}, attributes({0}), "operand 'x' is bool[2]: it takes numbers"},
          {{x}, {{"axes", std::vector<int64_t>{0}}}, "attribute 'keepdim' (bool) is missing"}};
}

}  // namespace monograph::ops
