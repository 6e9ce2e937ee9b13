#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "codegen/cpu/kernel_check.h"
#include "ir/loop/evaluate.h"
#include "ir/loop/loop_parser.h"

// The five kernels of docs/loop.md: read from the document, run by the oracle and by generated
// code, and compared with formulas.
namespace monograph::codegen {
namespace {

using ir::Literal;

ir::Loop example(const std::string& name) {
  std::ifstream file(MONOGRAPH_SOURCE_DIR "/docs/loop.md");
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str(), opening = "```loop " + name + "\n";
  const size_t begin = text.find(opening) + opening.size();
  EXPECT_GE(begin, opening.size()) << "docs/loop.md has no kernel " << name;
  return ir::parse_loop(text.substr(begin, text.find("```", begin) - begin), "docs/loop.md");
}

// Evaluates on random buffers; storage by buffer number.
std::vector<Literal> evaluated(const ir::Loop& loop, const CheckOptions& options = {}) {
  BufferSet set = make_buffers(loop, options);
  ir::evaluate(loop, set.addresses);
  return std::move(set.storage);
}

TEST(LoopExamples, ResidualNorm) {
  const ir::Loop loop = example("residual_norm");
  const std::vector<Literal> b = evaluated(loop);
  for (const int row : {0, 200, 511}) {
    double sum = 0, squares = 0;
    for (int j = 0; j < 128; ++j) sum += b[0].get(row * 128 + j) + b[1].get(row * 128 + j);
    const double mean = sum / 128;
    for (int j = 0; j < 128; ++j) {
      squares += std::pow(b[0].get(row * 128 + j) + b[1].get(row * 128 + j) - mean, 2);
    }
    const double rstd = 1 / std::sqrt(squares / 128 + 1e-5);
    EXPECT_NEAR(b[6].get(row), mean, 1e-5);
    EXPECT_NEAR(b[7].get(row), rstd, 1e-5);
    const double h = b[0].get(row * 128 + 9) + b[1].get(row * 128 + 9);
    EXPECT_NEAR(b[4].get(row * 128 + 9), h, 1e-5);
    EXPECT_NEAR(b[5].get(row * 128 + 9), (h - mean) * rstd * b[2].get(9) + b[3].get(9), 1e-4);
  }
  EXPECT_EQ(difference_from_oracle(loop), "");
  EXPECT_EQ(difference_from_oracle(loop, {.aliases = {{4, 0}, {5, 1}}}), "");
}

TEST(LoopExamples, NormBackward) {
  const ir::Loop loop = example("norm_backward");
  const std::vector<Literal> b = evaluated(loop);
  const int column = 77;
  double dweight = 0, dbias = 0;
  for (int row = 0; row < 512; ++row) {
    const double n = (b[1].get(row * 128 + column) - b[2].get(row)) * b[3].get(row);
    dweight += b[0].get(row * 128 + column) * n;
    dbias += b[0].get(row * 128 + column);
  }
  EXPECT_NEAR(b[7].get(column), dweight, 1e-3);
  EXPECT_NEAR(b[8].get(column), dbias, 1e-3);
  EXPECT_EQ(difference_from_oracle(loop), "");
  EXPECT_EQ(difference_from_oracle(loop, {.aliases = {{6, 5}}}), "");
}

TEST(LoopExamples, ChunkedLoss) {
  const ir::Loop loop = example("chunked_loss");
  CheckOptions options{.index_extent = 256};
  options.contents[2] = Literal::scalar(ir::DType::kF32, 1.0 / 512);
  const std::vector<Literal> b = evaluated(loop, options);
  double loss = 0;
  for (int row = 0; row < 128; ++row) {
    double sum = 0;
    for (int j = 0; j < 256; ++j) sum += std::exp(b[0].get(row * 256 + j));
    const int64_t target = b[1].get_i64(row);
    loss += (std::log(sum) - b[0].get(row * 256 + target)) / 512;
    const double probability = std::exp(b[0].get(row * 256 + target)) / sum;
    EXPECT_NEAR(b[3].get(row * 256 + target), (probability - 1) / 512, 1e-7);
  }
  EXPECT_NEAR(b[4].get(0), loss, 1e-5);
  EXPECT_EQ(difference_from_oracle(loop, options), "");
  options.aliases[3] = 0;
  EXPECT_EQ(difference_from_oracle(loop, options), "");
}

TEST(LoopExamples, AdamW) {
  const ir::Loop loop = example("adamw");
  CheckOptions options{.aliases = {{8, 1}, {9, 2}, {10, 3}}};
  const auto positive = [](int64_t i) { return 0.25 + static_cast<double>(i % 13) / 16; };
  options.contents[3] = Literal::from({ir::DType::kF32, {100000}}, positive);
  for (const auto& [buffer, value] :
       std::map<int, double>{{4, 0.01}, {5, 0.19}, {6, 0.002}, {7, 9.0}}) {
    options.contents[buffer] = Literal::scalar(ir::DType::kF32, value);
  }
  const BufferSet before = make_buffers(loop, options);
  const std::vector<Literal> b = evaluated(loop, options);
  for (const int64_t j : {0, 89999, 90000, 99999}) {
    const double g = before.storage[0].get(j) / 3.000001, w = before.storage[1].get(j);
    const double m = 0.9 * before.storage[2].get(j) + 0.1 * g;
    const double v = 0.999 * before.storage[3].get(j) + 0.001 * g * g;
    const double decayed = j < 90000 ? w * (1 - 0.01 * 0.1) : w;
    EXPECT_NEAR(b[2].get(j), m, 1e-6);
    EXPECT_NEAR(b[3].get(j), v, 1e-6);
    EXPECT_NEAR(b[1].get(j), decayed - 0.01 * (m / 0.19) / (std::sqrt(v / 0.002) + 1e-8), 1e-5);
  }
  EXPECT_EQ(difference_from_oracle(loop, options), "");
}

TEST(LoopExamples, EmbeddingGradient) {
  const ir::Loop loop = example("embedding_gradient");
  // 300 positions; id 5 has those divisible by 3, id 200 the others.
  std::vector<double> order;
  for (int p = 0; p < 300; p += 3) order.push_back(p);
  for (int p = 0; p < 300; ++p) {
    if (p % 3 != 0) order.push_back(p);
  }
  CheckOptions options{.index_extent = 300};
  options.contents[1] =
      Literal::from({ir::DType::kI32, {300}}, [&](int64_t i) { return order[i]; });
  options.contents[2] = Literal::from({ir::DType::kI32, {257}}, [](int64_t v) {
    return v <= 5 ? 0.0 : v <= 200 ? 100.0 : 300.0;
  });
  const std::vector<Literal> b = evaluated(loop, options);
  double sum = 0;
  for (int p = 0; p < 300; p += 3) sum += b[0].get(p * 128 + 17);
  EXPECT_NEAR(b[3].get(5 * 128 + 17), sum, 1e-4);
  EXPECT_EQ(b[3].get(6 * 128 + 17), 0);
  EXPECT_EQ(difference_from_oracle(loop, options), "");
}

}  // namespace
}  // namespace monograph::codegen
