#pragma once

#include <gmock/gmock.h>
#include <omp.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "comm/threads/thread_world.h"
#include "frontend/session/monograph.h"

// For tests: exchanges of one gradient by nn::replicate on ranks that are threads of this process.
namespace monograph::session {

using Vector = std::vector<double>;

// What rank `rank` has as its gradient in step `step`.
using Source = std::function<ir::Literal(int rank, int step)>;

struct ExchangeCase {
  ops::Compression compression;
  ir::Shape shape;
  Source gradient;
  int num_steps = 1;
  int num_ranks = 2;
  CompileOptions options = {};
};

struct Outcome {
  std::vector<ir::Literal> means;  // of each step
  ir::Literal residual;            // of all ranks; none: empty
  passes::ExchangeSavings savings;
  std::vector<std::string> remarks;
};

// The gradient of sum(w * x) for w is x.
inline Outcome exchange(const ExchangeCase& run, comm::World& world) {
  omp_set_num_threads(1);
  const ir::Mesh mesh({{"data", run.num_ranks}});
  trace::State w("w", {ir::DType::kF32, run.shape}, ir::StateRole::kParameter,
                 trace::Initializer::constant(1));
  Session session(
      {.seed = 5, .options = run.options, .mesh = runtime::make_mesh_context(mesh, world)});
  ops::Compression compression = run.compression;
  compression.min_elements = 1;
  Compiled step = session.compile([&](const Tensor& x) {
    return nn::replicate(sum(w * x).backward(), mesh, {.compression = compression})[w];
  });
  Outcome outcome;
  for (int i = 0; i < run.num_steps; ++i) {
    outcome.means.push_back(step(run.gradient(world.rank, i)).values[0]);
  }
  const TraceRecord& record = step.trace_record({{ir::DType::kF32, run.shape}});
  outcome.savings = record.savings;
  if (compression.has_residual() && outcome.savings.num_gradients > 0) {
    outcome.residual = session.state("exchange.residual.data.w");
  }
  for (const passes::Remark& remark : record.remarks) outcome.remarks.push_back(remark.reason);
  return outcome;
}

inline std::vector<Outcome> exchange(const ExchangeCase& run) {
  std::vector<Outcome> outcomes(run.num_ranks);
  comm::run_ranks(run.num_ranks,
                  [&](comm::World& world) { outcomes[world.rank] = exchange(run, world); });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.means, outcomes[0].means);
  return outcomes;
}

inline ir::Literal random_gradient(const ir::Shape& shape, int rank, int step) {
  std::mt19937 random(rank * 1000 + step + 1);
  std::normal_distribution<float> normal;
  std::vector<float> values(shape.num_elements());
  for (float& value : values) value = normal(random);
  return ir::Literal::from_f32(shape, values);
}

inline Source random_source(const ir::Shape& shape) {
  return [shape](int rank, int step) { return random_gradient(shape, rank, step); };
}

inline Vector to_vector(const ir::Literal& literal) {
  Vector values(literal.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = literal.get(static_cast<int64_t>(i));
  return values;
}

inline Vector mean_of_ranks(const ExchangeCase& run, int step) {
  Vector mean(run.shape.num_elements(), 0);
  for (int rank = 0; rank < run.num_ranks; ++rank) {
    const Vector x = to_vector(run.gradient(rank, step));
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += x[i] / run.num_ranks;
  }
  return mean;
}

inline double squares(const Vector& x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}

inline Vector minus(const Vector& a, const Vector& b) {
  Vector result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), std::minus<>());
  return result;
}

}  // namespace monograph::session
