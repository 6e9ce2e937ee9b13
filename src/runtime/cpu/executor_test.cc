#include "runtime/cpu/executor.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "runtime/cpu/copy_bandwidth.h"

namespace monograph::runtime {
namespace {

using ir::Address;
using ir::DType;
using ir::Literal;
using ir::Segment;

// y = x + w; w += 1
void add_and_count(void* const* arguments) {
  const float* const x = static_cast<const float*>(arguments[0]);
  float* const w = static_cast<float*>(arguments[1]);
  float* const y = static_cast<float*>(arguments[2]);
  for (int i = 0; i < 4; ++i) {
    y[i] = x[i] + w[i];
    w[i] += 1;
  }
}

ir::Program counting_program() {
  ir::Program program;
  const ir::TensorType type{DType::kF32, {4}};
  const Address x{Segment::kInput, 64}, w{Segment::kWeights, 0}, y{Segment::kOutput, 0};
  program.segment_bytes[static_cast<int>(Segment::kInput)] = 128;
  program.segment_bytes[static_cast<int>(Segment::kWeights)] = 16;
  program.segment_bytes[static_cast<int>(Segment::kOutput)] = 16;
  program.inputs = {{"x", type, x}};
  program.states = {{"w", type, w}};
  program.outputs = {{"y", type, y}};
  program.kernels.emplace_back();
  program.kernels[0].buffers.resize(3);
  program.steps.emplace_back();
  program.steps[0].work = ir::KernelStep{0, {x, w, y}, {}};
  return program;
}

TEST(Executor, RunsStepsOnStates) {
  const ir::Program program = counting_program();
  Executor executor(program, {add_and_count});
  executor.set_input("x", Literal::from_f32({4}, {1, 2, 3, 4}));
  executor.run();
  EXPECT_EQ(executor.output("y"), Literal::from_f32({4}, {1, 2, 3, 4}));
  executor.run();
  EXPECT_EQ(executor.output("y"), Literal::from_f32({4}, {2, 3, 4, 5}));
  EXPECT_EQ(executor.read_state("w"), Literal::from_f32({4}, {2, 2, 2, 2}));
  executor.write_state("w", Literal::from_f32({4}, {0, 0, 0, 9}));
  executor.run();
  EXPECT_EQ(executor.output("y"), Literal::from_f32({4}, {1, 2, 3, 13}));
}

TEST(Executor, SharesSegments) {
  const ir::Program program = counting_program();
  Executor first(program, {add_and_count});
  SegmentBases shared{};
  shared[static_cast<int>(Segment::kWeights)] = first.segment(Segment::kWeights);
  Executor second(program, {add_and_count}, shared);
  first.run();
  second.run();
  EXPECT_EQ(first.read_state("w").get(0), 2);
  EXPECT_EQ(second.output("y").get(0), 1);
}

TEST(Executor, MeasuresStepsOnlyWhenAsked) {
  const ir::Program program = counting_program();
  Executor executor(program, {add_and_count});
  executor.run();
  EXPECT_EQ(executor.step_times()[0].num_runs, 0);
  executor.measure_steps(true);
  executor.run();
  EXPECT_EQ(executor.step_times()[0].num_runs, 1);
  EXPECT_GT(executor.step_times()[0].total_ns, 0);
}

template <typename Function>
std::string user_error_of(Function function) {
  try {
    function();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Executor, NamesWhatIsWrongWithATensor) {
  const ir::Program program = counting_program();
  Executor executor(program, {add_and_count});
  EXPECT_EQ(user_error_of([&] { executor.set_input("z", Literal(program.inputs[0].type)); }),
            "the program has no input 'z': it has x");
  EXPECT_EQ(user_error_of([&] {
              executor.set_input("x", Literal::from_f32({2}, {1, 2}));
            }),
            "input 'x' is f32[4], but f32[2] was given");
  EXPECT_EQ(user_error_of([&] { executor.output("loss"); }),
            "the program has no output 'loss': it has y");
}

TEST(Executor, RefusesAddressesOutsideTheirSegment) {
  ir::Program program = counting_program();
  std::get<ir::KernelStep>(program.steps[0].work).arguments[2].offset = 16;
  EXPECT_THROW(Executor(program, {add_and_count}), InternalError);
}

TEST(Executor, SortsIds) {
  ir::Program program;
  const Address ids{Segment::kInput, 0}, order{Segment::kScratch, 0},
      offsets{Segment::kScratch, 64};
  program.segment_bytes[static_cast<int>(Segment::kInput)] = 64;
  program.segment_bytes[static_cast<int>(Segment::kScratch)] = 128;
  program.inputs = {{"ids", {DType::kI64, {6}}, ids}};
  program.outputs = {{"order", {DType::kI32, {6}}, order},
                     {"offsets", {DType::kI32, {5}}, offsets}};
  program.steps.emplace_back();
  program.steps[0].work = ir::SortIdsStep{DType::kI64, 6, 4, ids, order, offsets};
  Executor executor(program, {});
  executor.set_input("ids", Literal::from_i64({6}, {2, 0, 2, 3, 0, 2}));
  executor.run();
  const auto values = [&](const char* name) {
    const Literal literal = executor.output(name);
    std::vector<int64_t> result;
    for (int64_t i = 0; i < literal.num_elements(); ++i) result.push_back(literal.get_i64(i));
    return result;
  };
  EXPECT_THAT(values("order"), testing::ElementsAre(1, 4, 0, 2, 5, 3));
  EXPECT_THAT(values("offsets"), testing::ElementsAre(0, 2, 2, 5, 6));
  executor.set_input("ids", Literal::from_i64({6}, {2, 0, 4, 3, 0, 2}));
  EXPECT_EQ(user_error_of([&] { executor.run(); }), "id 4 at position 2 is out of range: use 0..3");
}

TEST(CopyBandwidth, IsPositive) {
  EXPECT_GT(measure_copy_bandwidth(), 0);
}

}  // namespace
}  // namespace monograph::runtime
