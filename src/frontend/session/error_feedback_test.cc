// Exchanges that keep what they do not send: TopK and PowerSGD.
#include <cmath>

#include "frontend/session/exchange_testing.h"

namespace monograph::session {
namespace {

using ::testing::HasSubstr;

CompileOptions interpreted() {
  CompileOptions options;
  options.backend = "interpret";
  return options;
}

// Of means over ranks: all that was sent, and what the ranks have left.
void expect_conserved(const ExchangeCase& run, const Outcome& outcome) {
  const int64_t count = run.shape.num_elements();
  Vector total(count, 0), expected(count, 0);
  for (int step = 0; step < run.num_steps; ++step) {
    const Vector sent = to_vector(outcome.means[step]), given = mean_of_ranks(run, step);
    for (int64_t i = 0; i < count; ++i) total[i] += sent[i], expected[i] += given[i];
  }
  ASSERT_EQ(outcome.residual.num_elements(), count * run.num_ranks);
  const Vector left = to_vector(outcome.residual);
  for (size_t i = 0; i < left.size(); ++i) total[i % count] += left[i] / run.num_ranks;
  EXPECT_LT(squares(minus(total, expected)), 1e-11 * squares(expected));
}

// Stich et al., definition 2.1: |C(x) - x|^2 <= (1 - k / d) |x|^2.
TEST(TopKTest, Contracts) {
  const ir::Shape shape{40, 50};
  for (const double fraction : {0.001, 0.01, 0.1, 0.5, 1.0}) {
    const ExchangeCase run{nn::top_k(fraction), shape, random_source(shape)};
    const Vector left = to_vector(exchange(run)[0].residual);
    const auto count = static_cast<size_t>(shape.num_elements());
    for (int rank = 0; rank < 2; ++rank) {
      const Vector own(left.begin() + static_cast<int64_t>(rank * count),
                       left.begin() + static_cast<int64_t>((rank + 1) * count));
      const auto num_left = std::count_if(own.begin(), own.end(), [](double x) { return x != 0; });
      EXPECT_EQ(num_left, count - static_cast<size_t>(std::llround(fraction * 2000)));
      const double all = squares(to_vector(run.gradient(rank, 0)));
      EXPECT_LE(squares(own), (1 - fraction) * all);
    }
  }
}

TEST(TopKTest, SendsTheLargestExactlyAndNothingElse) {
  const ir::Shape shape{1, 8};
  const auto source = [&](int rank, int) {
    return rank == 0 ? ir::Literal::from_f32(shape, {5, -1, 0.5, 0, 0, 0, 0, -7})
                     : ir::Literal::from_f32(shape, {4, 0, 0, 0, 3, 1, 0, 0});
  };
  const Outcome outcome = exchange({nn::top_k(0.25), shape, source})[0];
  EXPECT_EQ(to_vector(outcome.means[0]), Vector({4.5, 0, 0, 0, 1.5, 0, 0, -3.5}));
  EXPECT_EQ(to_vector(outcome.residual),
            Vector({0, -1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
}

TEST(TopKTest, WhatIsNotSentIsSentLater) {
  const ir::Shape shape{30, 20};
  for (const int num_ranks : {2, 3}) {
    const ExchangeCase run{nn::top_k(0.05), shape, random_source(shape), 12, num_ranks};
    expect_conserved(run, exchange(run)[0]);
  }
}

TEST(TopKTest, CompiledIsInterpretedAndRepeats) {
  const ir::Shape shape{30, 20};
  ExchangeCase run{nn::top_k(0.05), shape, random_source(shape), 5, 3};
  const Outcome compiled = exchange(run)[0];
  EXPECT_EQ(exchange(run)[0].means, compiled.means);
  run.options = interpreted();
  const Outcome reference = exchange(run)[0];
  EXPECT_EQ(reference.means.size(), compiled.means.size());
  for (size_t step = 0; step < compiled.means.size(); ++step) {
    const Vector a = to_vector(compiled.means[step]), b = to_vector(reference.means[step]);
    EXPECT_LT(squares(minus(a, b)), 1e-10 * squares(b)) << "step " << step;
  }
}

TEST(TopKTest, SendsEightBytesForEachChosen) {
  const ir::Shape shape{100, 100};
  const Outcome outcome = exchange({nn::top_k(0.01), shape, random_source(shape), 1, 3})[0];
  EXPECT_EQ(outcome.savings.bytes_after, 2 * 100 * 8);  // to both others
  EXPECT_EQ(outcome.savings.bytes_before, 2 * (40000 / 3 * 2));
}

// A matrix of rank `rank`, other for each rank and step.
Source low_rank_source(const ir::Shape& shape, int64_t rank, bool is_alike) {
  return [=](int who, int step) {
    const ir::Literal left = random_gradient({shape[0], rank}, is_alike ? 0 : who, 100 + step);
    const ir::Literal right = random_gradient({rank, shape[1]}, is_alike ? 0 : who, 200 + step);
    return ir::Literal::from({ir::DType::kF32, shape}, [&](int64_t i) {
      double sum = 0;
      for (int64_t k = 0; k < rank; ++k) {
        sum += left.get(i / shape[1] * rank + k) * right.get(k * shape[1] + i % shape[1]);
      }
      return sum;
    });
  };
}

TEST(PowerSgdTest, IsExactForMatricesOfLowRank) {
  const ir::Shape shape{48, 40};
  for (const int64_t rank : {1, 2, 4}) {
    // Two of rank 2 have a mean of rank 4.
    const ExchangeCase run{nn::power_sgd(4), shape, low_rank_source(shape, rank, rank == 4), 2};
    const Outcome outcome = exchange(run)[0];
    for (int step = 0; step < run.num_steps; ++step) {
      const Vector exact = mean_of_ranks(run, step);
      const Vector error = minus(to_vector(outcome.means[step]), exact);
      EXPECT_LT(squares(error), 1e-9 * squares(exact)) << "rank " << rank << " step " << step;
    }
  }
}

TEST(PowerSgdTest, WhatFactorsLackIsSentLater) {
  const ir::Shape shape{48, 40};
  for (const int num_ranks : {2, 3}) {
    const ExchangeCase run{nn::power_sgd(2), shape, random_source(shape), 12, num_ranks};
    expect_conserved(run, exchange(run)[0]);
  }
}

// Step after step of one matrix, the factors come closer to its largest singular values.
TEST(PowerSgdTest, BeginsWhereTheStepBeforeEnded) {
  const ir::Shape shape{48, 40};
  const ExchangeCase run{nn::power_sgd(2), shape,
                         [shape](int, int) { return random_gradient(shape, 0, 0); }, 8};
  const std::vector<ir::Literal> means = exchange(run)[0].means;
  Vector sent(shape.num_elements(), 0);
  const Vector exact = mean_of_ranks(run, 0);
  double first = 0, last = 0;
  for (int step = 0; step < run.num_steps; ++step) {
    const Vector mean = to_vector(means[step]);
    for (size_t i = 0; i < sent.size(); ++i) sent[i] += mean[i];
    Vector average = sent;
    for (double& value : average) value /= step + 1;
    last = squares(minus(average, exact)) / squares(exact);
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.7 * first);
}

TEST(PowerSgdTest, ZeroMatricesDoNotStopIt) {
  const ir::Shape shape{48, 40};
  const ExchangeCase run{nn::power_sgd(2), shape,
                         [shape](int rank, int step) {
                           return step < 2 ? ir::Literal({ir::DType::kF32, shape})
                                           : low_rank_source(shape, 1, true)(rank, step);
                         },
                         3};
  const std::vector<ir::Literal> means = exchange(run)[0].means;
  EXPECT_EQ(squares(to_vector(means[0])), 0);
  EXPECT_EQ(squares(to_vector(means[1])), 0);
  const Vector exact = mean_of_ranks(run, 2);
  EXPECT_LT(squares(minus(to_vector(means[2]), exact)), 1e-9 * squares(exact));
}

TEST(PowerSgdTest, CompiledIsInterpretedAndRepeats) {
  const ir::Shape shape{48, 40};
  ExchangeCase run{nn::power_sgd(3), shape, random_source(shape), 3};
  const Outcome compiled = exchange(run)[0];
  EXPECT_EQ(exchange(run)[0].means, compiled.means);
  run.options = interpreted();
  const Outcome reference = exchange(run)[0];
  for (size_t step = 0; step < compiled.means.size(); ++step) {
    const Vector a = to_vector(compiled.means[step]), b = to_vector(reference.means[step]);
    EXPECT_LT(squares(minus(a, b)), 1e-9 * squares(b)) << "step " << step;
  }
}

TEST(PowerSgdTest, MatricesThatFactorsDoNotHalveAreExact) {
  const ir::Shape shape{10, 8};
  ExchangeCase run{nn::power_sgd(4), shape, random_source(shape)};
  const Outcome outcome = exchange(run)[0];
  EXPECT_EQ(outcome.savings.num_gradients, 0);
  EXPECT_THAT(outcome.remarks.at(0), HasSubstr("factors would be more than half of it"));
  const Vector error = minus(to_vector(outcome.means[0]), mean_of_ranks(run, 0));
  EXPECT_LT(squares(error), 1e-12 * squares(mean_of_ranks(run, 0)));
}

}  // namespace
}  // namespace monograph::session
