// Training runs of a small ResNet against PyTorch's (bench/golden/resnet_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "device/cuda/availability.h"
#include "frontend/session/golden_numbers.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using nlohmann::json;

const std::string kFolder = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/";

json read_golden(const std::string& name) {
  std::ifstream file(kFolder + name + ".json");
  if (!file) throw std::runtime_error("cannot read " + kFolder + name + ".json");
  return json::parse(file);
}

constexpr float kConvScale = 32;  // as the script has these
constexpr int kNumBatches = 4;
constexpr uint32_t kImageStream = 1000;

class GoldenResNet : public testing::TestWithParam<const char*> {
 protected:
  GoldenResNet() : file_(read_golden("resnet_tiny")), run_(file_[GetParam()]), model_(config()) {}

  nn::ResNetConfig config() const {
    const json& c = file_["config"];
    return {.blocks = c["blocks"],
            .is_bottleneck = std::string(GetParam()) == "bottleneck",
            .width = c["width"],
            .channels = c["channels"],
            .num_classes = c["num_classes"]};
  }

  void set_parameters(Session& session) {
    uint32_t number = 0;
    for (const json& each : run_["parameters"]) {
      const ir::Shape shape(each["shape"].get<std::vector<int64_t>>());
      const trace::Parameter parameter = model_.parameter(each["name"].get<std::string>());
      ASSERT_EQ(parameter.shape(), shape) << parameter.name();
      ir::Literal value = golden_parameter(parameter.name(), shape, number++);
      if (shape.rank() == 4) {
        for (float& element : value.as<float>()) element *= kConvScale;
      }
      session.set_state(parameter.name(), value);
    }
    EXPECT_EQ(run_["parameters"].size(), model_.parameters().size());
  }

  std::vector<ir::Literal> batch(int step) const {
    const json& c = file_["config"];
    const int64_t rows = c["batch_size"], size = c["image_size"], channels = c["channels"];
    const uint32_t number = static_cast<uint32_t>(step % kNumBatches);
    const ir::Literal images =
        ir::Literal::from({DType::kF32, {rows, size, size, channels}}, [&](int64_t i) {
          const auto u =
              static_cast<float>(mix(static_cast<uint32_t>(i), kImageStream + number) >> 8);
          return u * 0x1p-23f - 1.0f;
        });
    std::vector<int64_t> labels;
    for (int64_t row = number * rows; row < (number + 1) * rows; ++row) {
      labels.push_back(mix(static_cast<uint32_t>(row), kBatchStream) %
                       c["num_classes"].get<uint32_t>());
    }
    return {images, ir::Literal::from_i64({rows}, labels)};
  }

  optim::SGDConfig sgd() const {
    const json& o = file_["optimizer"];
    return {.learning_rate = optim::Schedule::constant(o["learning_rate"]),
            .momentum = o["momentum"],
            .weight_decay = o["weight_decay"]};
  }

  void compare_norms(const Session& session, const json& norms, double tolerance) {
    for (const auto& [name, expected] : norms.items()) {
      const double norm = expected.get<double>();
      // A bias near 0 feels every element that rounding moves over the kink of a ReLU.
      EXPECT_NEAR(norm_of(session.state(name)), norm, tolerance * std::max(norm, 0.2)) << name;
    }
  }

  void train(int num_steps, double tolerance, const std::string& backend) {
    Session session({.options = {.backend = backend}});
    set_parameters(session);
    optim::SGD optimizer(model_.parameters(), sgd());
    const auto loss = [&](const Tensor& x, const Tensor& y) { return model_.loss(x, y); };
    Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
      const Tensor value = loss(x, y);
      optimizer.step(value.backward());
      return value;
    });
    for (int i = 0; i < num_steps; ++i) {
      const double expected = run_["losses"][i];
      EXPECT_NEAR(step(batch(i)).loss(), expected, tolerance * expected) << "step " << i;
    }
    if (num_steps < std::ssize(run_["losses"])) return;
    compare_norms(session, run_["parameter_norms"], 5 * tolerance);
    compare_norms(session, run_["buffer_norms"], 5 * tolerance);
    model_.eval();
    Compiled evaluation = session.compile(loss);
    const double expected = run_["evaluation_loss"];
    EXPECT_NEAR(evaluation(batch(0)).loss(), expected, tolerance * expected);
  }

  json file_, run_;
  nn::ResNet model_;
};

INSTANTIATE_TEST_SUITE_P(Blocks, GoldenResNet, testing::Values("basic", "bottleneck"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(GoldenResNet, FirstGradients) {
  Session session;
  set_parameters(session);
  Compiled gradients = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model_.loss(x, y);
    const trace::Gradients all = loss.backward();
    Outputs outputs{{"loss", loss}};
    for (const auto& parameter : model_.parameters()) {
      outputs.emplace_back(parameter.name(), all[parameter]);
    }
    return outputs;
  });
  const Results results = gradients(batch(0));
  for (const auto& [name, expected] : run_["gradient_norms"].items()) {
    const double norm = expected.get<double>();
    EXPECT_NEAR(norm_of(results[name]), norm, 1e-4 * norm) << name;
  }
}

TEST_P(GoldenResNet, TrainsCompiled) {
  train(50, 1e-3, "cpu");
}

TEST_P(GoldenResNet, TrainsOnGpu) {
  if (const std::string why = device::cuda::why_no_gpu(); !why.empty()) {
    GTEST_SKIP() << "needs a GPU: " << why;
  }
  train(50, 1e-3, "cuda");
}

TEST_P(GoldenResNet, TrainsInterpreted) {
  train(2, 1e-4, "interpret");
}

}  // namespace
}  // namespace monograph::session
