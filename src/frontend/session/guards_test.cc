#include "frontend/session/guards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "frontend/session/monograph.h"
#include "frontend/session/tensor_view.h"

namespace monograph::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ir::TensorType kRows{ir::DType::kF32, {8, 64}};

CallFacts call_of(std::initializer_list<const ir::TensorType*> types) {
  CallFacts call;
  for (const ir::TensorType* type : types) call.inputs.push_back({type});
  return call;
}

Guards guards_of(const CallFacts& call) {
  return {static_guards(call), {}, {}, 0};
}

std::string miss_text(const Guards& guards, const CallFacts& call) {
  const std::vector<std::string> names = {"a", "b"};
  return to_text(guards.misses(call, names));
}

TEST(GuardsTest, HoldForEqualTypesOnly) {
  const Guards guards = guards_of(call_of({&kRows}));
  const ir::TensorType equal = kRows, other{ir::DType::kF32, {8, 63}};
  EXPECT_TRUE(guards.hold(call_of({&equal})));
  EXPECT_FALSE(guards.hold(call_of({&other})));
  EXPECT_FALSE(guards.hold(call_of({&equal, &equal})));
}

TEST(GuardsTest, AMissNamesExpectedGotAndFix) {
  const Guards guards = guards_of(call_of({&kRows}));
  const ir::TensorType dtype{ir::DType::kI64, {8, 64}}, rank{ir::DType::kF32, {8}},
      dim{ir::DType::kF32, {7, 64}};
  EXPECT_EQ(miss_text(guards, call_of({&dtype})),
            "input 'a' dtype: expected f32[8,64], got i64[8,64]: cast it to f32 before the call");
  EXPECT_THAT(miss_text(guards, call_of({&rank})),
              HasSubstr("input 'a' rank: expected f32[8,64], got f32[8]: give it one rank"));
  EXPECT_THAT(miss_text(guards, call_of({&dim})),
              HasSubstr("input 'a' dim 0: expected f32[8,64], got f32[7,64]: "));
}

TEST(GuardsTest, RangesMultiplesAndEqualitiesOfSymbols) {
  Guards guards = guards_of(call_of({&kRows, &kRows}));
  guards.num_symbols = 1;
  for (InputGuard& input : guards.inputs) input.dims[0] = {2, 16, 2, 0, "batch"};
  const ir::TensorType six{ir::DType::kF32, {6, 64}}, odd{ir::DType::kF32, {5, 64}},
      many{ir::DType::kF32, {18, 64}};
  EXPECT_TRUE(guards.hold(call_of({&six, &six})));
  EXPECT_FALSE(guards.hold(call_of({&six, &kRows})));
  EXPECT_EQ(
      miss_text(guards, call_of({&six, &kRows})),
      "input 'b' dim 0: expected batch = 6, as in an input before, got 8: give equal sizes, or "
      "declare two Dims of different names");
  EXPECT_EQ(
      miss_text(guards, call_of({&odd, &odd})).substr(0, 95),
      "input 'a' dim 0: expected batch 2..16, a multiple of 2, got 5: pad it to a multiple of "
      "2; input");
  EXPECT_THAT(miss_text(guards, call_of({&many, &many})),
              HasSubstr("expected batch 2..16, a multiple of 2, got 18: declare a wider range"));
}

TEST(GuardsTest, SayWhatTheyTakeToHold) {
  Guards guards = guards_of(call_of({&kRows, &kRows}));
  guards.inputs[0].dims[0] = {1, 16, 1, 0, "batch"};
  guards.inputs[0].first_use = {.file = "gpt.cc", .line = 31, .scope = ""};
  guards.inputs[1].order = {1, 0};
  guards.mesh = ir::Mesh({{"data", 2}});
  guards.switches.push_back(
      {"training mode of 'drop'", std::make_shared<const bool>(true), true, {}});
  const std::vector<std::string> names = {"a", "b"};
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(guards.describe(names),
              ElementsAre(Pair("a", "f32[batch,64], batch 1..16 (used at gpt.cc:31)"),
                          Pair("b", "f32[8,64], axes (1,0) from outer to inner"),
                          Pair("training mode of 'drop'", "true"), Pair("mesh", "mesh(data=2)")));
}

TEST(GuardsTest, TheNearestVariantExplains) {
  const ir::TensorType far_type{ir::DType::kF32, {3, 3}}, ids{ir::DType::kI64, {8, 64}};
  const Guards far = guards_of(call_of({&kRows, &far_type})),
               near = guards_of(call_of({&kRows, &ids}));
  const std::vector<const Guards*> known = {&far, &near};
  const std::vector<std::string> names = {"a", "b"};
  EXPECT_THAT(to_text(nearest_misses(known, call_of({&ids, &ids}), names)),
              HasSubstr("input 'a' dtype: expected f32[8,64], got i64[8,64]"));
}

TEST(GuardsTest, AMissIsRecordedWithTheLineThatReliesOnIt) {
  Compiled step = compile([](const Tensor& x) { return sum(x * 2.0); });
  const int line = __LINE__ - 1;
  step(ir::Literal({ir::DType::kF32, {2}}));
  EXPECT_THAT(step.guard_misses(), ElementsAre());
  step(ir::Literal({ir::DType::kF32, {3}}));
  ASSERT_EQ(step.guard_misses().size(), 1u);
  const GuardMiss& miss = step.guard_misses()[0];
  EXPECT_EQ(miss.guard, "input 'input0' dim 0");
  EXPECT_EQ(miss.expected, "f32[2]");
  EXPECT_EQ(miss.got, "f32[3]");
  EXPECT_THAT(miss.place.file, HasSubstr("guards_test.cc"));
  EXPECT_EQ(miss.place.line, line);
}

TEST(GuardsTest, ASwitchNamesTheLineThatItDecided) {
  struct Net : nn::Module {
    nn::Dropout drop{*this, "drop", 0.5};
  } net;
  Compiled step = compile([&](const Tensor& x) { return sum(net.drop(x)); });
  const int line = __LINE__ - 1;
  step(ir::Literal({ir::DType::kF32, {2}}));
  net.eval();
  step(ir::Literal({ir::DType::kF32, {2}}));
  ASSERT_EQ(step.guard_misses().size(), 1u);
  EXPECT_EQ(step.guard_misses()[0].guard, "training mode of 'drop'");
  EXPECT_EQ(step.guard_misses()[0].place.line, line);
}

// x as [2,3], given by the memory of its transpose.
TEST(GuardsTest, ATransposedInputIsCompiledForItsLayout) {
  int num_traces = 0;
  Compiled step = compile([&](const Tensor& x) {
    ++num_traces;
    return x * 1.0;
  });
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  TensorView view{{ir::DType::kF32, {2, 3}}, columns.data(), {1, 2}};
  const ir::Literal expected = ir::Literal::from_f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(step.run_on({&view, 1}).values[0], expected);
  EXPECT_EQ(step.run_on({&view, 1}).values[0], expected);
  EXPECT_EQ(num_traces, 1);
  EXPECT_EQ(step(expected).values[0], expected);
  EXPECT_EQ(num_traces, 2);
  ASSERT_EQ(step.guard_misses().size(), 1u);
  EXPECT_THAT(
      step.guard_misses()[0].str(),
      HasSubstr("input 'input0' layout: expected axes (1,0) from outer to inner, got row-major "
                "(used at "));
}

TEST(GuardsTest, ViewsWithGapsAreMadeDense) {
  Compiled step = compile([](const Tensor& x) { return x * 1.0; });
  const std::vector<float> memory = {1, 2, -1, 3, 4, -1};
  TensorView view{{ir::DType::kF32, {2, 2}}, memory.data(), {3, 1}};
  EXPECT_EQ(step.run_on({&view, 1}).values[0], ir::Literal::from_f32({2, 2}, {1, 2, 3, 4}));
}

TEST(GuardsTest, ATensorOnAnotherDeviceIsRefused) {
  Compiled step = compile([](const Tensor& x) { return x * 1.0; }, {.input_names = {"rows"}});
  TensorView view{{ir::DType::kF32, {2}}, nullptr, {}, "cuda:0"};
  try {
    step.run_on({&view, 1});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "input 'rows' device: expected cpu, got cuda:0: copy it to host memory before the "
                 "call");
  }
}

TEST(GuardsTest, AnotherMeshCompilesAgain) {
  Session session;
  Compiled step = session.compile([](const Tensor& x) { return sum(x); });
  const ir::Literal x({ir::DType::kF32, {2}});
  step(x);
  auto mesh = std::make_shared<runtime::MeshContext>();
  mesh->mesh = ir::Mesh({{"data", 1}});
  session.set_mesh(mesh);
  step(x);
  EXPECT_EQ(step.num_signatures(), 2);
  ASSERT_EQ(step.guard_misses().size(), 1u);
  EXPECT_EQ(step.guard_misses()[0].guard, "mesh");
  EXPECT_EQ(step.guard_misses()[0].got, "mesh(data=1)");
}

}  // namespace
}  // namespace monograph::session
