#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/availability.h"
#include "runtime/cuda/executor.h"

// For tests: Programs on the GPU beside the same Programs on the CPU's executor.
namespace monograph::runtime {

#define NEEDS_GPU()                                                     \
  if (const std::string why = device::cuda::why_no_gpu(); !why.empty()) \
  GTEST_SKIP() << "needs a GPU: " << why

// A Program of a few steps over states (read) and outputs (written).
class Problem {
 public:
  ir::Address state(const std::string& name, ir::DType dtype, ir::Shape shape) {
    return add(&program.states, ir::Segment::kWeights, name, {dtype, std::move(shape)});
  }
  ir::Address output(const std::string& name, ir::DType dtype, ir::Shape shape) {
    return add(&program.outputs, ir::Segment::kOutput, name, {dtype, std::move(shape)});
  }
  ir::Address scratch(int64_t num_bytes) { return place(ir::Segment::kScratch, num_bytes); }
  template <typename Work>
  void step(Work work) {
    program.steps.emplace_back();
    program.steps.back().work = std::move(work);
    program.steps.back().name = fmt::format("step {}", program.steps.size());
  }
  // Random values in the states of both executors.
  template <typename Target>
  void fill(Target& target) const {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const ir::ProgramTensor& state : program.states) {
      target.write_state(state.name, ir::Literal::from(state.type, [&](int64_t) {
                           return static_cast<double>(normal(random));
                         }));
    }
  }

  ir::Program program;

 private:
  ir::Address place(ir::Segment segment, int64_t num_bytes) {
    int64_t& size = program.segment_bytes[static_cast<int>(segment)];
    const ir::Address address{segment, size};
    size += (num_bytes + 255) / 256 * 256;
    return address;
  }
  ir::Address add(std::vector<ir::ProgramTensor>* tensors, ir::Segment segment,
                  const std::string& name, ir::TensorType type) {
    const ir::Address address = place(segment, type.num_bytes());
    tensors->push_back({name, std::move(type), address});
    return address;
  }
};

// |x - y| / |y|
inline double distance(const ir::Literal& x, const ir::Literal& y) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    difference += (x.get(i) - y.get(i)) * (x.get(i) - y.get(i));
    norm += y.get(i) * y.get(i);
  }
  return std::sqrt(difference / norm);
}

// Runs both; twice on the GPU, the second time replayed, which must give the same bits.
inline void compare(const Problem& problem, double tolerance,
                    const CudaExecutorOptions& options = {}) {
  Executor cpu(problem.program, {});
  problem.fill(cpu);
  cpu.run();
  NEEDS_GPU();
  CudaExecutor gpu(problem.program, {}, device::cuda::Context::create(), options);
  problem.fill(gpu);
  gpu.run();
  std::vector<ir::Literal> first;
  for (const ir::ProgramTensor& output : problem.program.outputs) {
    first.push_back(gpu.output(output.name));
    const double error = distance(first.back(), cpu.output(output.name));
    EXPECT_LE(error, tolerance) << output.name;  // NaN fails too
  }
  gpu.run();
  EXPECT_EQ(gpu.why_not_replayed(), "");
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(gpu.output(problem.program.outputs[i].name), first[i]);
  }
}

}  // namespace monograph::runtime
