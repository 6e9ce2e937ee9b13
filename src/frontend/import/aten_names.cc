#include "frontend/import/aten_names.h"

#include <algorithm>

namespace monograph::import {
namespace {

constexpr std::string_view kLayerNorm = "sum mul sub add rsqrt";
constexpr std::string_view kSoftmax = "amax sub exp sum div";
constexpr std::string_view kLogSoftmax = "amax sub exp sum log";
constexpr std::string_view kVariance = "sum mul sub";

constexpr AtenName kNames[] = {
    {"aten._log_softmax.default", kLogSoftmax},
    {"aten._softmax.default", kSoftmax},
    {"aten.abs.default", "abs"},
    {"aten.add.Scalar", "add"},
    {"aten.add.Tensor", "add"},
    {"aten.addmm.default", "matmul add"},
    {"aten.amax.default", "amax"},
    {"aten.amin.default", "neg amax"},
    {"aten.arange.default", "iota"},
    {"aten.arange.start_step", "iota mul add"},
    {"aten.bmm.default", "matmul"},
    {"aten.cat.default", "cat"},
    {"aten.clamp.default", "maximum minimum"},
    {"aten.clone.default", "clone"},
    {"aten.conv2d.default", "permute conv2d"},
    {"aten.convolution.default", "permute conv2d"},
    {"aten.cos.default", "cos"},
    {"aten.div.Tensor", "div"},
    {"aten.embedding.default", "embedding"},
    {"aten.eq.Scalar", "eq"},
    {"aten.eq.Tensor", "eq"},
    {"aten.erf.default", "erf"},
    {"aten.exp.default", "exp"},
    {"aten.expand.default", "expand"},
    {"aten.full.default", "full"},
    {"aten.gather.default", "gather"},
    {"aten.ge.Scalar", "ge"},
    {"aten.ge.Tensor", "ge"},
    {"aten.gelu.default", "mul erf tanh add"},
    {"aten.gt.Scalar", "gt"},
    {"aten.gt.Tensor", "gt"},
    {"aten.layer_norm.default", kLayerNorm},
    {"aten.le.Scalar", "le"},
    {"aten.le.Tensor", "le"},
    {"aten.linear.default", "permute matmul add"},
    {"aten.log.default", "log"},
    {"aten.logical_and.default", "logical_and"},
    {"aten.logical_not.default", "logical_not"},
    {"aten.logical_or.default", "logical_or"},
    {"aten.lt.Scalar", "lt"},
    {"aten.lt.Tensor", "lt"},
    {"aten.matmul.default", "matmul"},
    {"aten.max_pool2d.default", "permute max_pool2d"},
    {"aten.maximum.default", "maximum"},
    {"aten.mean.dim", "sum mul"},
    {"aten.minimum.default", "minimum"},
    {"aten.mm.default", "matmul"},
    {"aten.mul.Scalar", "mul"},
    {"aten.mul.Tensor", "mul"},
    {"aten.native_layer_norm.default", kLayerNorm},
    {"aten.ne.Scalar", "ne"},
    {"aten.ne.Tensor", "ne"},
    {"aten.neg.default", "neg"},
    {"aten.permute.default", "permute"},
    {"aten.pow.Tensor_Scalar", "pow"},
    {"aten.pow.Tensor_Tensor", "pow"},
    {"aten.reciprocal.default", "reciprocal"},
    {"aten.relu.default", "maximum"},
    {"aten.reshape.default", "reshape"},
    {"aten.rms_norm.default", "mul sum add rsqrt"},
    {"aten.rsqrt.default", "rsqrt"},
    {"aten.scaled_dot_product_attention.default", "scaled_dot_product_attention"},
    {"aten.sigmoid.default", "neg exp add reciprocal"},
    {"aten.silu.default", "neg exp add reciprocal mul"},
    {"aten.sin.default", "sin"},
    {"aten.slice.Tensor", "slice"},
    {"aten.softmax.int", kSoftmax},
    {"aten.split.Tensor", "split_with_sizes"},
    {"aten.split_with_sizes.default", "split_with_sizes"},
    {"aten.sqrt.default", "sqrt"},
    {"aten.squeeze.dim", "reshape"},
    {"aten.sub.Scalar", "sub"},
    {"aten.sub.Tensor", "sub"},
    {"aten.sum.dim_IntList", "sum"},
    {"aten.t.default", "permute"},
    {"aten.tanh.default", "tanh"},
    {"aten.transpose.int", "permute"},
    {"aten.unsqueeze.default", "reshape"},
    {"aten.var.correction", kVariance},
    {"aten.view.default", "reshape"},
    {"aten.where.self", "where"},
};

}  // namespace

std::span<const AtenName> aten_names() {
  return kNames;
}

const AtenName* find_aten_name(std::string_view name) {
  const auto names = aten_names();
  const auto found = std::lower_bound(
      names.begin(), names.end(), name,
      [](const AtenName& each, std::string_view wanted) { return each.name < wanted; });
  return found == names.end() || found->name != name ? nullptr : &*found;
}

}  // namespace monograph::import
