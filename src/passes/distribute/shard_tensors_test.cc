#include "passes/distribute/shard_tensors.h"

#include <gmock/gmock.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace monograph::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Sharded {
  std::string text;
  std::vector<std::string> reasons;  // of its remarks
};

using States = std::map<std::string, ir::Placement>;

Sharded shard(const std::string& graph, const States& states, bool is_sequence_parallel = false) {
  const TensorShards shards = {"tp", 2, states, is_sequence_parallel};
  PassContext context;
  const auto after = shard_tensors(ir::parse_graph(graph), shards, context);
  EXPECT_TRUE(ir::verify(*after).empty()) << ir::to_text(ir::verify(*after));
  Sharded sharded = {ir::to_text(*after), {}};
  for (const Remark& remark : context.remarks()) sharded.reasons.push_back(remark.reason);
  return sharded;
}

constexpr const char* kLayers = R"(graph @g {
  %x = input "x" : f32[3,4,8]
  %w = state "w" {role="parameter"} : f32[8,16]
  %v = state "v" {role="parameter"} : f32[16,8]
  %b = state "b" {role="parameter"} : f32[8]
  %h = matmul(%x, %w) : f32[3,4,16]
  %t = tanh(%h) : f32[3,4,16]
  %y = matmul(%t, %v) : f32[3,4,8]
  %z = add(%y, %b) : f32[3,4,8]
  return z=%z
}
)";

const States kColumnsThenRows = {{"w", ir::Placement::shard(1)}, {"v", ir::Placement::shard(0)}};

TEST(ShardTensors, ColumnsThenRowsNeedOneSum) {
  const Sharded sharded = shard(kLayers, kColumnsThenRows);
  EXPECT_THAT(sharded.text, HasSubstr("state \"w\" {role=\"parameter\"} : f32[8,8]"));
  EXPECT_THAT(sharded.text, HasSubstr("state \"v\" {role=\"parameter\"} : f32[8,8]"));
  EXPECT_THAT(sharded.text, HasSubstr("%5 = matmul(%4, %1) : f32[3,4,8]\n"
                                      "  %6 = all_reduce(%5) {axis=\"tp\", op=\"sum\", size=2}"));
  EXPECT_THAT(sharded.reasons, ElementsAre("axis 'tp': 'add' reads it as a whole"));
}

TEST(ShardTensors, SequenceParallelSumsIntoPartsOfTheLength) {
  const Sharded sharded = shard(kLayers, kColumnsThenRows, true);
  EXPECT_THAT(sharded.text, Not(HasSubstr("all_reduce")));
  EXPECT_THAT(sharded.text, HasSubstr("reduce_scatter"));
  EXPECT_THAT(sharded.text, HasSubstr("add(%9, %2) : f32[3,2,8]"));
  EXPECT_THAT(sharded.reasons, ElementsAre("axis 'tp': 'add' reads shard(1) of it",
                                           "axis 'tp': the step returns it"));
}

// The rows of others' ids are zeros, and their gradients go to nobody else's rows.
TEST(ShardTensors, AVocabularyInPartsIsLookedUpAndAddedToInParts) {
  const Sharded sharded = shard(R"(graph @g {
  %ids = input "ids" : i64[6]
  %g = input "g" : f32[6,4]
  %w = state "w" {role="parameter"} : f32[10,4]
  %x = embedding(%w, %ids) : f32[6,4]
  %e = exp(%x) : f32[6,4]
  %o, %f = sort_ids(%ids) {num_ids=10} : i32[6], i32[11]
  %d = segment_sum(%g, %o, %f) : f32[10,4]
  %n = sub(%w, %d) : f32[10,4]
  update %w = %n
  return e=%e
}
)",
                                {{"w", ir::Placement::shard(0)}});
  EXPECT_THAT(sharded.text, HasSubstr("state \"mesh.tp\""));
  EXPECT_THAT(sharded.text, HasSubstr("sort_ids"));
  EXPECT_THAT(sharded.text, HasSubstr("{num_ids=5} : i32[6], i32[6]"));
  EXPECT_THAT(sharded.text, Not(HasSubstr("f32[10,4]")));
  EXPECT_THAT(sharded.reasons, ElementsAre("axis 'tp': 'exp' reads it as a whole"));
}

// An op without a rule gets the whole, gathered once for all who read it.
TEST(ShardTensors, WhatHasNoRuleReadsWholeValues) {
  const Sharded sharded = shard(R"(graph @g {
  %ids = input "ids" : i64[6]
  %w = state "w" {role="parameter"} : f32[10,4]
  %a = slice(%w) {axis=0, end=3, start=0} : f32[3,4]
  %b = slice(%w) {axis=0, end=6, start=3} : f32[3,4]
  %y = add(%a, %b) : f32[3,4]
  return y=%y
}
)",
                                {{"w", ir::Placement::shard(0)}});
  EXPECT_THAT(sharded.reasons, ElementsAre("axis 'tp': 'slice' reads it as a whole"));
  EXPECT_THAT(sharded.text, HasSubstr("all_gather(%0) {axis=\"tp\", size=2} : f32[10,4]"));
}

}  // namespace
}  // namespace monograph::passes
