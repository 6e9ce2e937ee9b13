// Every planted fault is found, with its line and the advice; nothing is said of healthy models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"
#include "train/models.h"

namespace monograph::zoo {
namespace {

using testing::HasSubstr;

std::vector<Program> all_programs() {
  std::vector<Program> all;
  for (const auto& programs : {break_programs(), guard_programs(), type_programs(),
                               gradient_programs(), purity_programs(), placement_programs()}) {
    all.insert(all.end(), programs.begin(), programs.end());
  }
  return all;
}

class Zoo : public testing::TestWithParam<size_t> {};

TEST_P(Zoo, TheFaultIsFoundWithItsLineAndAdvice) {
  const Program program = all_programs()[GetParam()];
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Findings findings = program.run();
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  ASSERT_FALSE(findings.empty()) << program.name;
  bool is_found = false;
  for (const std::string& finding : findings) {
    bool fits =
        program.line == 0 || finding.find(fmt::format(".cc:{}", program.line)) != std::string::npos;
    for (const std::string& word : program.words) {
      fits = fits && finding.find(word) != std::string::npos;
    }
    is_found = is_found || fits;
  }
  EXPECT_TRUE(is_found) << program.name << ", line " << program.line << ":\n"
                        << testing::PrintToString(findings);
}

INSTANTIATE_TEST_SUITE_P(Programs, Zoo, testing::Range<size_t>(0, all_programs().size()));

TEST(ZooTest, HasThirtyPrograms) {
  EXPECT_GE(all_programs().size(), 30u);
}

// Two training steps of each model: no break, no guard missed, no impurity, no parameter without
// gradient.
class Healthy : public testing::TestWithParam<train::ModelConfig> {};

TEST_P(Healthy, NothingIsReported) {
  const auto model = train::make_model(GetParam());
  optim::AdamW optimizer(model->module().parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 1.0});
  const session::TracedFunction step =
      session::traced_function([&](const Tensor& given, const Tensor& targets) {
        const Tensor loss = model->loss(given, targets);
        optimizer.step(loss.backward());
        return loss;
      });
  std::vector<ir::Literal> inputs;
  for (const ir::TensorType& type : model->input_types()) {
    inputs.push_back(ir::Literal::from(type, [](int64_t i) { return static_cast<double>(i % 3); }));
  }
  EXPECT_THAT(examine(step, {.options = {.backend = "interpret"}, .calls = {inputs, inputs}}),
              testing::IsEmpty());
}

std::vector<train::ModelConfig> small_models() {
  train::ModelConfig gpt{.name = "gpt-nano", .num_layers = 1, .num_heads = 2};
  gpt.embedding = 16, gpt.block = 8, gpt.batch = 2;
  train::ModelConfig dropout = gpt, llama = gpt, gpt2 = gpt;
  dropout.dropout = 0.1;
  llama.name = "llama-nano", llama.num_kv_heads = 1;
  gpt2.name = "gpt2-124m", gpt2.vocab = 64;
  return {{.name = "mlp", .block = 8, .batch = 2},
          gpt,
          dropout,
          llama,
          gpt2,
          {.name = "resnet-tiny", .image = 16, .classes = 3, .batch = 2}};
}

INSTANTIATE_TEST_SUITE_P(Models, Healthy, testing::ValuesIn(small_models()));

}  // namespace
}  // namespace monograph::zoo
