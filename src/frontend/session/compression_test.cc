// Compressed exchanges of gradients on ranks that are threads of this process.
#include <cmath>

#include "base/message_of.h"
#include "frontend/session/exchange_testing.h"

namespace monograph::session {
namespace {

using ::testing::HasSubstr;
CompileOptions interpreted() {
  CompileOptions options;
  options.backend = "interpret";
  return options;
}

class Qsgd : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Bits, Qsgd, testing::Values(2, 4, 8));

// Alistarh et al., lemma 3.1: E|Q - x|^2 <= min(d / s^2, sqrt(d) / s) |x|^2, for each bucket of d.
TEST_P(Qsgd, IsUnbiasedAndOfBoundedVariance) {
  constexpr int kSteps = 300;
  constexpr double kBucket = 512;
  const double levels = static_cast<double>(int64_t{1} << (GetParam() - 1)) - 1;
  const ir::Shape shape{4, 512};
  ExchangeCase run{.compression = nn::qsgd(GetParam()),
                   .shape = shape,
                   .gradient = [shape](int rank, int) { return random_gradient(shape, rank, 0); },
                   .num_steps = kSteps};
  const std::vector<ir::Literal> means = exchange(run)[0].means;
  const Vector exact = mean_of_ranks(run, 0);
  Vector average(exact.size(), 0);
  double variance = 0;
  for (const ir::Literal& mean : means) {
    const Vector values = to_vector(mean);
    variance += squares(minus(values, exact)) / kSteps;
    for (size_t i = 0; i < average.size(); ++i) average[i] += values[i] / kSteps;
  }
  const double factor = std::min(kBucket / (levels * levels), std::sqrt(kBucket) / levels);
  double bound = 0;  // of the mean of two
  for (int rank = 0; rank < 2; ++rank)
    bound += factor * squares(to_vector(run.gradient(rank, 0))) / 4;
  EXPECT_LT(variance, bound);
  EXPECT_GT(variance, 0);
  // The average of so many is off by 1 / kSteps of the variance, give or take a few percent.
  EXPECT_NEAR(squares(minus(average, exact)) / (variance / kSteps), 1, 0.2);
}

TEST_P(Qsgd, SendsSoManyBitsAnElement) {
  const ir::Shape shape{64, 512};
  const Outcome outcome = exchange({nn::qsgd(GetParam()), shape, random_source(shape)})[0];
  const int64_t count = shape.num_elements();
  EXPECT_EQ(outcome.savings.num_gradients, 1);
  EXPECT_EQ(outcome.savings.bytes_before, 4 * count);
  EXPECT_EQ(outcome.savings.bytes_after, count * GetParam() / 8 + count / 512 * 4);
  EXPECT_THAT(outcome.remarks[0], HasSubstr("a rank of 2 sends"));
}

TEST_P(Qsgd, CompiledIsInterpretedAndRepeats) {
  const ir::Shape shape{33, 77};  // no whole number of buckets
  ExchangeCase run{nn::qsgd(GetParam()), shape, random_source(shape), 3};
  const std::vector<ir::Literal> compiled = exchange(run)[0].means;
  EXPECT_EQ(exchange(run)[0].means, compiled);
  run.options = interpreted();
  const std::vector<ir::Literal> reference = exchange(run)[0].means;
  for (int step = 0; step < 3; ++step) {
    const Vector a = to_vector(compiled[step]), b = to_vector(reference[step]);
    EXPECT_LT(squares(minus(a, b)), 1e-10 * squares(b)) << "step " << step;
  }
}

TEST(QsgdTest, RanksDrawForThemselvesAndStepsAnew) {
  const ir::Shape shape{4, 512};
  ExchangeCase run{nn::qsgd(2), shape, [&](int, int) { return random_gradient(shape, 0, 0); }, 2};
  const std::vector<ir::Literal> means = exchange(run)[0].means;
  EXPECT_NE(means[0], means[1]);
  // Ranks with equal draws would send the same: only levels, no means of two.
  const Vector mean = to_vector(means[0]);
  double scale = 0;
  for (int i = 0; i < 512; ++i) scale = std::max(scale, std::abs(mean[i]));
  int num_between = 0;
  for (int i = 0; i < 512; ++i) {
    num_between += std::abs(std::abs(mean[i]) - scale / 2) < 1e-6 * scale;
  }
  EXPECT_GT(num_between, 50);
}

TEST(QsgdTest, ZerosStayZerosAndWhatIsNotFiniteIsSeen) {
  const ir::Shape shape{2, 512};
  const auto with = [&](float first) {
    return [shape, first](int rank, int) {
      std::vector<float> values(shape.num_elements(), 0);
      if (rank == 1) values[512] = first;
      return ir::Literal::from_f32(shape, values);
    };
  };
  EXPECT_EQ(squares(to_vector(exchange({nn::qsgd(4), shape, with(0)})[0].means[0])), 0);
  for (const float bad : {INFINITY, NAN}) {
    const Vector mean = to_vector(exchange({nn::qsgd(4), shape, with(bad)})[0].means[0]);
    EXPECT_EQ(mean[511], 0);
    EXPECT_FALSE(std::isfinite(mean[512]));
  }
}

TEST(CompressionTest, RefusesWhatIsOutOfRange) {
  const ir::Shape shape{4, 512};
  const auto message = [&](const ops::Compression& compression, int num_ranks = 2) {
    return message_of([&] { exchange({compression, shape, random_source(shape), 1, num_ranks}); });
  };
  EXPECT_THAT(message(nn::qsgd(3)), HasSubstr("compression qsgd of 3 bits: use 2, 4 or 8"));
  EXPECT_THAT(message(nn::top_k(0)), HasSubstr("use a fraction above 0, up to 1"));
  EXPECT_THAT(message(nn::top_k(1.5)), HasSubstr("compression topk of 1.5 of the elements"));
  EXPECT_THAT(message(nn::power_sgd(0)),
              HasSubstr("compression powersgd of rank 0: use 1 or more"));
  EXPECT_THAT(message(nn::qsgd(4), 1), HasSubstr("over axis 'data' of one rank"));
}

}  // namespace
}  // namespace monograph::session
