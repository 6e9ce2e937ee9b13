// Each op's placement rule against its reference: what ranks make of their parts, put together, is
// what one rank makes of the whole.
#include "ops/division.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/builder.h"
#include "ops/evaluate.h"
#include "ops/registry.h"
#include "runtime/interpreter.h"

namespace monograph::runtime {
namespace {

using ir::Literal;
using ir::Placement;
using Literals = std::vector<Literal>;
using Placements = std::vector<Placement>;

// Where element i of a rank's part lies in the whole.
int64_t place_in_whole(int64_t i, const ir::Shape& whole, const Placement& shard, int64_t rank,
                       int64_t size) {
  int64_t inner = 1;
  for (int dim = shard.dim + 1; dim < whole.rank(); ++dim) inner *= whole[dim];
  const int64_t run = whole[shard.dim] / (shard.blocks * size) * inner;
  return (i / run * size + rank) * run + i % run;
}

// What a rank has of the whole: of a sum, rank 0 all but what the others have.
Literal local(const Literal& whole, const Placement& placement, int64_t rank, int64_t size) {
  const ir::TensorType& type = whole.type();
  if (placement.is_shard()) {
    return Literal::from({type.dtype, placement.part_of(type.shape, size)}, [&](int64_t i) {
      return whole.get(place_in_whole(i, type.shape, placement, rank, size));
    });
  }
  if (!placement.is_sum()) return whole;
  return Literal::from(type, [&](int64_t i) {
    const auto others = static_cast<double>(i % 3 - 1);
    return rank > 0 ? others : whole.get(i) - others * static_cast<double>(size - 1);
  });
}

double combined(const std::vector<Literals>& ranks, int result, int64_t i, const ir::Shape& whole,
                const Placement& placement) {
  const auto size = static_cast<int64_t>(ranks.size());
  if (placement.is_shard()) {
    for (int64_t rank = 0; rank < size; ++rank) {
      const Literal& part = ranks[rank][result];
      for (int64_t k = 0; k < part.num_elements(); ++k) {
        if (place_in_whole(k, whole, placement, rank, size) == i) return part.get(k);
      }
    }
  }
  double value = ranks[0][result].get(i);
  for (int64_t rank = 1; rank < size; ++rank) {
    const double own = ranks[rank][result].get(i);
    if (placement.is_sum()) value += own;
    if (placement.is_partial() && !placement.is_sum()) value = std::fmax(value, own);
    if (placement.is_replicate()) {
      EXPECT_EQ(own, value);
    }
  }
  return value;
}

// The node's results on one rank.
Literals run_on(int64_t rank, int64_t size, const ir::Node& node, const ops::Division& division,
                const Literals& operands) {
  ir::Graph graph;
  ops::Builder build(graph);
  InputMap inputs;
  std::vector<ir::Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = std::to_string(i);
    inputs[name] = local(operands[i], division.operands[i], rank, size);
    values.push_back(graph.add_input(name, inputs[name].type())->result());
  }
  std::vector<ir::Value> results;
  if (division.local) {
    const ir::Value place = graph.add_input("place", {ir::DType::kI64, {}})->result();
    inputs["place"] = Literal::from_i64({}, {rank});
    results = division.local(build, values, place);
  } else {
    ir::Node* own = build.emit_node(node.op(), values, division.attributes);
    for (int i = 0; i < own->num_results(); ++i) results.push_back(own->result(i));
  }
  for (ir::Value result : results) graph.add_output(std::to_string(graph.outputs().size()), result);
  StateMap states;
  return interpret(graph, inputs, states);
}

// Every way of one operand to lie in parts, and all of them as summands.
std::vector<Placements> ways(const ops::Sample& sample, int64_t size) {
  const size_t count = sample.operands.size();
  std::vector<Placements> result;
  for (size_t i = 0; i < count; ++i) {
    const ir::Shape& shape = sample.operands[i].type.shape;
    for (int dim = 0; dim < shape.rank(); ++dim) {
      for (int64_t blocks : {1, 2}) {
        Placements given(count);
        given[i] = Placement::shard(dim, blocks);
        if (given[i].fits(shape, size)) result.push_back(given);
      }
    }
  }
  for (const ops::SampleOperand& operand : sample.operands) {
    if (operand.type.dtype == ir::DType::kBool) return result;  // is no summand
  }
  result.emplace_back(count, Placement::partial());
  for (size_t i = 0; i < count; ++i) {
    result.emplace_back(count);
    result.back()[i] = Placement::partial();
  }
  return result;
}

// Returns whether the op has a rule for it.
bool check_way(const ops::OpDef& op, const ops::Sample& sample, const Placements& given,
               int64_t size) {
  const Literals operands = ops::draw_operands(sample, 5);
  ir::Graph graph;
  std::vector<ir::Value> values;
  for (const Literal& operand : operands) {
    values.push_back(graph.add_input(std::to_string(values.size()), operand.type())->result());
  }
  const ir::Node& node = *ops::Builder(graph).emit_node(op.name, values, sample.attributes);
  const auto division = ops::divide({node, given, size, "tp"});
  if (!division || division->results[0].is_packed()) return false;
  std::vector<Literals> ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    ranks.push_back(run_on(rank, size, node, *division, operands));
  }
  const Literals whole = ops::evaluate(op.name, operands, sample.attributes);
  for (int r = 0; r < node.num_results(); ++r) {
    for (int64_t i = 0; i < whole[r].num_elements(); ++i) {
      const double expected = whole[r].get(i);
      const double made = combined(ranks, r, i, whole[r].type().shape, division->results[r]);
      EXPECT_NEAR(made, expected, 1e-4 * (1 + std::abs(expected)))
          << op.name << " on " << size << " ranks, given " << given[0].str() << ", result " << r
          << " as " << division->results[r].str();
    }
  }
  return true;
}

bool is_exact(const ops::Sample& sample) {
  for (const ops::SampleOperand& operand : sample.operands) {
    if (operand.type.dtype == ir::DType::kBF16 || operand.type.dtype == ir::DType::kF16)
      return false;
  }
  return true;
}

TEST(Division, PartsPutTogetherAreTheWhole) {
  std::set<std::string_view> divided;
  for (const ops::OpDef* op : ops::all_ops()) {
    if (op->has(ops::kCollective) || op->has(ops::kCreation)) continue;
    for (const ops::Sample& sample : op->samples()) {
      if (!is_exact(sample)) continue;
      for (const int64_t size : {2, 3}) {
        for (const Placements& given : ways(sample, size)) {
          if (check_way(*op, sample, given, size)) divided.insert(op->name);
        }
      }
    }
  }
  for (const char* name : {"add",
                           "after",
                           "amax",
                           "cat",
                           "convert",
                           "detach",
                           "embedding",
                           "exp",
                           "expand",
                           "gather",
                           "matmul",
                           "mul",
                           "neg",
                           "permute",
                           "reshape",
                           "scaled_dot_product_attention",
                           "scaled_dot_product_attention_backward",
                           "segment_sum",
                           "slice",
                           "split_with_sizes",
                           "sub",
                           "sum",
                           "where"}) {
    EXPECT_TRUE(divided.contains(name)) << name;
  }
}

// A flat range of parts: each rank packs, sums and unpacks its own.
TEST(Division, PackedPartsStayTogether) {
  ir::Graph graph;
  ops::Builder build(graph);
  const ir::Value a = graph.add_input("a", {ir::DType::kF32, {4, 6}})->result();
  const ir::Value b = graph.add_input("b", {ir::DType::kF32, {8}})->result();
  const ir::Node& pack = *build.emit_node("pack", {a, b}, {{"alignment", int64_t{4}}});
  const Placements lie = {Placement::shard(1, 3), Placement::shard(0)};
  const auto packed = ops::divide({pack, lie, 2, "tp"});
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->results[0], Placement::packed(lie));
  const std::vector<ir::Shape> shapes = {{4, 6}, {8}};
  const ir::Node& unpack =
      *build.emit_node("unpack", {build.mul(const_cast<ir::Node&>(pack).result(), 2.0)},
                       {{"shapes", shapes}, {"alignment", int64_t{4}}});
  const auto unpacked = ops::divide({unpack, packed->results, 2, "tp"});
  ASSERT_TRUE(unpacked);
  EXPECT_EQ(unpacked->results, lie);
  EXPECT_EQ(std::get<std::vector<ir::Shape>>(unpacked->attributes.at("shapes")),
            (std::vector<ir::Shape>{{4, 3}, {4}}));
  const Placements one_whole = {Placement::shard(0), Placement::replicate()};
  EXPECT_FALSE(ops::divide({pack, one_whole, 2, "tp"}));
}

}  // namespace
}  // namespace monograph::runtime
