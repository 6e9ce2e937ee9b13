#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "runtime/single_op_testing.h"

// Ops against PyTorch's outputs and gradients (bench/golden/op_golden.py makes the file).
namespace monograph::runtime {
namespace {

using ir::DType;
using ir::Literal;
using nlohmann::json;

std::vector<json> golden_cases() {
  std::ifstream file(MONOGRAPH_SOURCE_DIR "/tests/golden/ops.json");
  return file ? json::parse(file).get<std::vector<json>>() : std::vector<json>();
}

Literal literal_of(const json& tensor) {
  const ir::TensorType type{ir::parse_dtype(tensor.at("dtype").get<std::string>()),
                            ir::Shape(tensor.at("shape").get<std::vector<int64_t>>())};
  const json& data = tensor.at("data");
  return Literal::from(type, [&](int64_t i) {
    return data[i].is_boolean() ? static_cast<double>(data[i].get<bool>()) : data[i].get<double>();
  });
}

// One node that is the case's.
struct Use {
  std::string op;
  std::vector<Literal> operands;
  ir::Attributes attributes;
};

int64_t axis_of(const json& dim, int rank) {
  const auto axis = dim.get<int64_t>();
  return axis < 0 ? axis + rank : axis;
}

// A shape in which -1 stands for what is left.
std::vector<int64_t> resolved_shape(std::vector<int64_t> dims, int64_t num_elements) {
  for (int64_t dim : dims) num_elements /= dim == -1 ? 1 : dim;
  for (int64_t& dim : dims) dim = dim == -1 ? num_elements : dim;
  return dims;
}

std::vector<int64_t> transposed_axes(const json& attributes, int rank) {
  std::vector<int64_t> axes(rank);
  for (int i = 0; i < rank; ++i) axes[i] = i;
  std::swap(axes[axis_of(attributes.at("dim0"), rank)], axes[axis_of(attributes.at("dim1"), rank)]);
  return axes;
}

// Attributes in ATen's names to ours; nothing where the op has the same ones.
void translate_attributes(const std::string& op, const json& given, const json& outputs, Use& use) {
  const ir::Shape shape = use.operands[0].type().shape;
  const int rank = shape.rank();
  if (op == "pow") use.operands.push_back(Literal::scalar(DType::kF32, given.at("exponent")));
  if (op == "sum" || op == "amax") {
    std::vector<int64_t> axes;
    for (const json& dim : given.at("dim")) axes.push_back(axis_of(dim, rank));
    use.attributes = {{"axes", axes}, {"keepdim", given.at("keepdim").get<bool>()}};
  }
  if (op == "scaled_dot_product_attention") {
    use.attributes = {{"causal", given.at("is_causal").get<bool>()},
                      {"scale", 1 / std::sqrt(static_cast<double>(shape[3]))}};
  }
  if (op == "permute") use.attributes = {{"axes", given.at("dims").get<std::vector<int64_t>>()}};
  if (op == "transpose") use.attributes = {{"axes", transposed_axes(given, rank)}};
  if (op == "expand") use.attributes = {{"shape", given.at("size").get<std::vector<int64_t>>()}};
  if (op == "reshape") {
    use.attributes = {{"shape", resolved_shape(given.at("shape"), shape.num_elements())}};
  }
  if (op == "cat") use.attributes = {{"axis", axis_of(given.at("dim"), rank)}};
  if (op == "split") {
    std::vector<int64_t> sizes;
    const int64_t axis = axis_of(given.at("dim"), rank);
    for (const json& output : outputs) sizes.push_back(output.at("shape")[axis]);
    use.attributes = {{"axis", axis}, {"sizes", sizes}};
  }
}

// Null where the op or the form of its use is no op of ours.
std::optional<Use> translate(const json& golden) {
  const std::map<std::string, std::string> our_names = {{"mm", "matmul"},
                                                        {"bmm", "matmul"},
                                                        {"transpose", "permute"},
                                                        {"split", "split_with_sizes"},
                                                        {"index_select", "embedding"}};
  const auto op = golden.at("op").get<std::string>();
  Use use;
  use.op = our_names.contains(op) ? our_names.at(op) : op;
  const ops::OpDef* found = ops::find_op(use.op);
  if (found == nullptr || op == "gather" || op == "slice") return std::nullopt;
  for (const json& input : golden.at("inputs")) use.operands.push_back(literal_of(input));
  translate_attributes(op, golden.at("attributes"), golden.at("outputs"), use);
  if (use.op == "matmul") {  // vectors and broadcast batches are the frontend's
    const ir::Shape &a = use.operands[0].type().shape, &b = use.operands[1].type().shape;
    if (a.rank() < 2 || b.rank() < 2 || (b.rank() > 2 && a.rank() != b.rank())) return std::nullopt;
  }
  return use;
}

void expect_near(const Literal& given, const Literal& expected, const std::string& what) {
  ASSERT_EQ(given.type(), expected.type()) << what;
  for (int64_t i = 0; i < given.num_elements(); ++i) {
    const double value = expected.get(i);
    ASSERT_NEAR(given.get(i), value, 1e-6 + 1e-5 * std::abs(value)) << what << ", element " << i;
  }
}

void compare(const json& golden, const Use& use) {
  const ops::OpDef& op = ops::op_named(use.op);
  const json& upstream = golden.at("upstream");
  std::vector<ir::TensorType> types;
  for (const Literal& operand : use.operands) types.push_back(operand.type());
  std::vector<Literal> cotangents;
  for (const json& cotangent : upstream) cotangents.push_back(literal_of(cotangent));
  // PyTorch keeps the logsumexp of attention to itself.
  const size_t num_results = ops::infer_types(op, types, use.attributes).size();
  const size_t num_compared = golden.at("outputs").size();
  ASSERT_EQ(num_results, num_compared + (use.op == "scaled_dot_product_attention" ? 1 : 0));
  std::vector<bool> has_cotangent(num_results, false);
  std::fill_n(has_cotangent.begin(), cotangents.size(), true);
  const SingleOp single(op, types, use.attributes,
                        cotangents.empty() ? std::vector<bool>() : has_cotangent);
  const SingleOp::Outputs outputs = single.run(use.operands, cotangents);
  for (size_t i = 0; i < num_compared; ++i) {
    expect_near(outputs.results[i], literal_of(golden.at("outputs")[i]),
                fmt::format("result {}", i));
  }
  for (size_t i = 0; i < golden.at("gradients").size(); ++i) {
    const json& gradient = golden.at("gradients")[i];
    if (gradient.is_null()) continue;
    ASSERT_TRUE(single.has_gradient(static_cast<int>(i)));
    expect_near(outputs.gradients[i], literal_of(gradient), fmt::format("gradient {}", i));
  }
}

TEST(GoldenOps, AreWhatPyTorchComputes) {
  const std::vector<json> cases = golden_cases();
  ASSERT_FALSE(cases.empty()) << "tests/golden/ops.json is missing";
  std::set<std::string> checked;
  int num_other_forms = 0;
  for (const json& golden : cases) {
    const std::optional<Use> use = translate(golden);
    if (!use) {
      num_other_forms += ops::find_op(golden.at("op").get<std::string>()) != nullptr;
      continue;
    }
    SCOPED_TRACE(fmt::format("{} {}", use->op, golden.at("attributes").dump()));
    compare(golden, *use);
    if (HasFatalFailure()) return;
    checked.insert(use->op);
  }
  EXPECT_GE(checked.size(), 30u);
  // gather with two columns, slice with a step, matmul of two vectors and of a broadcast batch.
  EXPECT_EQ(num_other_forms, 5);
}

}  // namespace
}  // namespace monograph::runtime
