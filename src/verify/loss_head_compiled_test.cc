// Loss heads in chunks, compiled: against the interpreter, with less memory, and no copies.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/compile.h"
#include "frontend/session/monograph.h"

namespace monograph {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kLength = 24, kWidth = 8, kClasses = 160;
constexpr int64_t kRows = kBatch * kLength;
constexpr int64_t kLogitsBytes = kRows * kClasses * 4;

// A head with what the losses below take.
struct Head : nn::Module {
  nn::Linear body{*this, "body", kWidth, kWidth, 0.5};
  nn::Linear head{*this, "head", kWidth, kClasses, 0.5};
  Tensor hidden(const Tensor& x) const { return body(x); }
};

using Loss = std::function<Tensor(const Head&, const Tensor& x, const Tensor& targets)>;

Tensor plain(const Head& head, const Tensor& x, const Tensor& targets) {
  return cross_entropy(matmul(head.hidden(x), head.head.weight), targets);
}

// With a bias of the classes, whose gradient is a sum over all rows.
Tensor biased(const Head& head, const Tensor& x, const Tensor& targets) {
  return cross_entropy(head.head(head.hidden(x)), targets);
}

// Chosen rows only, smoothed labels, and a penalty on the normaliser ("z-loss").
Tensor penalised(const Head& head, const Tensor& x, const Tensor& targets) {
  const Tensor logits = head.head(head.hidden(x)) * 0.5;
  const Tensor normaliser = logsumexp(logits, -1, true);
  const Tensor ids = targets.unsqueeze(-1);
  const Tensor chosen = gather(logits, ids, -1);
  const Tensor row = normaliser - 0.9 * chosen - 0.1 * mean(logits, {-1}, true);
  const Tensor counts = where(lt(ids, 100), 1.0 + 0.0 * row, 0.0);
  return sum(counts * (row + 0.01 * normaliser * normaliser)) * (1.0 / 50);
}

// No cross entropy at all: a smooth distance to a row of numbers shared by all.
Tensor distance(const Head& head, const Tensor& x, const Tensor&) {
  const Tensor y = matmul(head.hidden(x), head.head.weight) - *head.head.bias;
  return mean(y * y * sigmoid(y));
}

struct Case {
  const char* name;
  Loss loss;
};
const Case kCases[] = {
    {"plain", plain}, {"biased", biased}, {"penalised", penalised}, {"distance", distance}};

auto step_of(const Head& head, const Loss& loss_of) {
  return [&head, loss_of](const Tensor& x, const Tensor& targets) {
    const Tensor loss = loss_of(head, x, targets);
    const trace::Gradients gradients = loss.backward();
    Outputs outputs{{"loss", loss}};
    for (const trace::Parameter& parameter : head.parameters()) {
      if (gradients.contains(parameter)) {
        outputs.emplace_back(parameter.name(), gradients[parameter]);
      }
    }
    return outputs;
  };
}

const ir::TensorType kInput{ir::DType::kF32, {kBatch, kLength, kWidth}};
const ir::TensorType kTargets{ir::DType::kI64, {kBatch, kLength}};

session::Results run(const Loss& loss, const session::CompileOptions& options) {
  Head head;
  Session session({.seed = 5, .options = options});
  session::Compiled step = session.compile(step_of(head, loss));
  return step(ir::Literal::from(kInput, [](int64_t i) { return std::sin(0.7 * i); }),
              ir::Literal::from(kTargets, [](int64_t i) { return (37 * i * i + 5) % kClasses; }));
}

compiler::Compilation compile_chunks(const Loss& loss, int64_t chunk_bytes) {
  Head head;
  session::Compiled step = compile(step_of(head, loss), {.backend = "null"});
  passes::StateLayout states;
  return compiler::compile(step.graph({kInput, kTargets}), states,
                           {.loss_chunk_bytes = chunk_bytes});
}

std::string remark_of(const compiler::Compilation& compilation) {
  for (const passes::Remark& remark : compilation.remarks) {
    if (remark.pass == "chunk_loss_head") return remark.reason;
  }
  return "";
}

void expect_near(const session::Results& found, const session::Results& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.names, expected.names);
  for (size_t k = 0; k < found.values.size(); ++k) {
    ASSERT_EQ(found.values[k].type(), expected.values[k].type());
    for (int64_t i = 0; i < found.values[k].num_elements(); ++i) {
      ASSERT_NEAR(found.values[k].get(i), expected.values[k].get(i), tolerance)
          << what << ", " << found.names[k] << " at " << i;
    }
  }
}

TEST(CompiledLossHead, AgreesWithTheInterpreter) {
  for (const auto& [name, loss] : kCases) {
    const session::Results expected = run(loss, {.backend = "interpret"});
    for (const int64_t chunks : {1, 2, 6}) {
      const session::CompileOptions options{.loss_chunk_bytes = kLogitsBytes / chunks};
      expect_near(run(loss, options), expected, 1e-5, fmt::format("{} in {}", name, chunks));
    }
  }
}

TEST(CompiledLossHead, AgreesInBF16) {
  const auto options = [](int64_t chunk_bytes) {
    return session::CompileOptions{.precision = "bf16", .loss_chunk_bytes = chunk_bytes};
  };
  for (const auto& [name, loss] : kCases) {
    const session::Results whole = run(loss, options(kLogitsBytes));
    expect_near(run(loss, options(kLogitsBytes / 8)), whole, 4e-3, name);
  }
}

// All cases are taken; the logits are never whole, and nothing is copied to be added to.
TEST(CompiledLossHead, TakesLessMemoryAndNoCopies) {
  for (const auto& [name, loss] : kCases) {
    const compiler::Compilation whole = compile_chunks(loss, kLogitsBytes);
    const compiler::Compilation chunks = compile_chunks(loss, kLogitsBytes / 6);
    EXPECT_EQ(remark_of(whole), "") << name;
    EXPECT_THAT(remark_of(chunks), HasSubstr("done in 6 chunks of 16 rows")) << name;
    const auto scratch = [](const compiler::Compilation& compilation) {
      return compilation.program.segment_bytes[static_cast<int>(ir::Segment::kScratch)];
    };
    EXPECT_LT(scratch(chunks), scratch(whole) - kLogitsBytes / 2) << name;
    for (const passes::Remark& remark : chunks.remarks) {
      EXPECT_EQ(remark.reason.find("copied"), std::string::npos) << name << ": " << remark.reason;
    }
  }
}

TEST(CompiledLossHead, HasOneKernelForAllChunks) {
  for (const auto& [name, loss] : kCases) {
    const auto few = compile_chunks(loss, kLogitsBytes / 3);
    const auto many = compile_chunks(loss, kLogitsBytes / 6);
    EXPECT_EQ(few.program.kernels.size(), many.program.kernels.size()) << name;
  }
}

TEST(CompiledLossHead, LeavesLogitsThatAreReturned) {
  Head head;
  session::Compiled step = compile(
      [&](const Tensor& x, const Tensor& targets) {
        const Tensor logits = matmul(head.hidden(x), head.head.weight);
        return Outputs{{"loss", cross_entropy(logits, targets)}, {"logits", logits}};
      },
      {.backend = "null"});
  passes::StateLayout states;
  const auto compilation = compiler::compile(step.graph({kInput, kTargets}), states,
                                             {.loss_chunk_bytes = kLogitsBytes / 6});
  EXPECT_THAT(remark_of(compilation), HasSubstr("it leaves the step"));
}

}  // namespace
}  // namespace monograph
