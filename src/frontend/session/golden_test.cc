// Whole training runs against those that PyTorch did (bench/golden/make_golden.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
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

class Golden {
 public:
  Golden(const std::string& name, nn::Module& model)
      : run(read_golden(name)), session({.seed = 1}), optimizer_(model.parameters(), adamw()) {
    std::ifstream text(kFolder + "text.txt", std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(text), {});
    uint32_t number = 0;
    for (const json& each : run["parameters"]) {
      const ir::Shape shape(each["shape"].get<std::vector<int64_t>>());
      const trace::Parameter parameter = model.parameter(each["name"].get<std::string>());
      EXPECT_EQ(parameter.shape(), shape);
      session.set_state(parameter.name(), golden_parameter(parameter.name(), shape, number++));
      names_.push_back(parameter.name());
    }
    EXPECT_EQ(names_.size(), model.parameters().size());
  }

  std::vector<ir::Literal> batch(int step) const {
    const auto rows = run["config"]["batch_size"].get<int64_t>();
    const auto window = run["config"]["block_size"].get<int64_t>();
    const bool is_mlp = run["config"]["model"] == "mlp";
    std::vector<int64_t> x, y;
    for (int64_t row = step * rows; row < (step + 1) * rows; ++row) {
      const size_t start =
          mix(static_cast<uint32_t>(row), kBatchStream) % (text_.size() - window - 1);
      for (int64_t i = 0; i < window; ++i) {
        x.push_back(static_cast<uint8_t>(text_[start + i]));
        if (!is_mlp) y.push_back(static_cast<uint8_t>(text_[start + i + 1]));
      }
      if (is_mlp) y.push_back(static_cast<uint8_t>(text_[start + window]));
    }
    return {ir::Literal::from_i64({rows, window}, x),
            ir::Literal::from_i64(is_mlp ? ir::Shape{rows} : ir::Shape{rows, window}, y)};
  }

  // Trains and compares losses and, in f32, gradient norms, rates and parameter norms.
  template <typename Model>
  void train(const Model& model, int num_steps, double tolerance,
             const session::CompileOptions& options) {
    Compiled step = session.compile(
        [&](const Tensor& x, const Tensor& y) {
          const Tensor loss = model.loss(x, y);
          const optim::Metrics metrics = optimizer_.step(loss.backward());
          return Outputs{{"loss", loss},
                         {"gradient_norm", metrics.gradient_norm},
                         {"learning_rate", metrics.learning_rate}};
        },
        options);
    for (int i = 0; i < num_steps; ++i) {
      const Results results = step(batch(i));
      const auto near = [&](double got, const json& expected) {
        EXPECT_NEAR(got, expected.get<double>(), tolerance * expected.get<double>())
            << "step " << i;
      };
      near(results.loss(), run["losses"][i]);
      if (options.precision != "f32") continue;  // norms of rounded gradients jump
      near(results.scalar("gradient_norm"), run["gradient_norms"][i]);
      near(results.scalar("learning_rate"), run["learning_rates"][i]);
      compare_parameters(i + 1, tolerance);
    }
    EXPECT_EQ(step.num_signatures(), 1);
  }

  // The gradients of the first step.
  template <typename Model>
  void compare_gradients(const Model& model, double tolerance) {
    Compiled gradients = session.compile([&](const Tensor& x, const Tensor& y) {
      const Tensor loss = model.loss(x, y);
      const trace::Gradients all = loss.backward();
      Outputs outputs{{"loss", loss}};
      for (const std::string& name : names_) outputs.emplace_back(name, all[model.parameter(name)]);
      return outputs;
    });
    const Results results = gradients(batch(0));
    for (const std::string& name : names_) {
      const double expected = run["parameter_gradient_norms"][name].get<double>();
      EXPECT_NEAR(norm_of(results[name]), expected, tolerance * expected) << name;
    }
  }

  // The first rows of logits of the first batch, before training.
  template <typename Model>
  void compare_logits(const Model& model, double tolerance) {
    Compiled forward = session.compile([&](const Tensor& x) { return model(x); });
    const ir::Literal logits = forward(batch(0)[0]).values[0];
    int64_t i = 0;
    for (const json& row : run["logits"]) {
      for (const json& each : row) EXPECT_NEAR(logits.get(i++), each.get<double>(), tolerance);
    }
    EXPECT_GT(i, 0);
  }

  json run;
  Session session;

 private:
  optim::AdamWConfig adamw() const {
    const json& o = run["optimizer"];
    return {.learning_rate = optim::Schedule::cosine(o["learning_rate"], o["min_learning_rate"],
                                                     o["warmup_steps"], o["total_steps"]),
            .beta1 = o["betas"][0],
            .beta2 = o["betas"][1],
            .epsilon = o["eps"],
            .weight_decay = o["weight_decay"],
            .max_norm = o["clip_grad_norm"]};
  }

  void compare_parameters(int num_steps, double tolerance) {
    const std::string key = "after_" + std::to_string(num_steps) + "_steps";
    if (!run["parameter_norms"].contains(key)) return;
    for (const auto& [name, expected] : run["parameter_norms"][key].items()) {
      EXPECT_NEAR(norm_of(session.state(name)), expected.get<double>(),
                  tolerance * expected.get<double>())
          << name << " " << key;
    }
  }

  std::string text_;
  optim::AdamW optimizer_;
  std::vector<std::string> names_;
};

nn::GPTConfig gpt_config(const std::string& name) {
  const json config = read_golden(name)["config"];
  return {.vocab_size = config["vocab_size"],
          .block_size = config["block_size"],
          .n_layer = config["n_layer"],
          .n_head = config["n_head"],
          .n_embd = config["n_embd"]};
}

nn::LlamaConfig llama_config(const std::string& name) {
  const json config = read_golden(name)["config"];
  return {.vocab_size = config["vocab_size"],
          .block_size = config["block_size"],
          .n_layer = config["n_layer"],
          .n_head = config["n_head"],
          .n_kv_head = config["n_kv_head"],
          .n_embd = config["n_embd"],
          .n_hidden = config["n_hidden"],
          .rope_theta = config["rope_theta"],
          .rms_norm_eps = config["rms_norm_eps"],
          .is_tied = config["is_tied"]};
}

TEST(GoldenTest, GeneratorAgrees) {
  const json generator = read_golden("gpt_tiny")["generator"];
  EXPECT_EQ(mix(0, 0), generator["mix_0_0"].get<uint32_t>());
  EXPECT_EQ(mix(12345, 7), generator["mix_12345_7"].get<uint32_t>());
}

TEST(GoldenTest, TinyGptForwardAndGradients) {
  nn::GPT model(gpt_config("gpt_tiny"));
  Golden golden("gpt_tiny", model);
  golden.compare_logits(model, 1e-5);
  golden.compare_gradients(model, 1e-4);
}

TEST(GoldenTest, TinyGptTrainsInterpreted) {
  nn::GPT model(gpt_config("gpt_tiny"));
  Golden golden("gpt_tiny", model);
  golden.train(model, 10, 1e-4, {.backend = "interpret"});
}

TEST(GoldenTest, LlamaForwardAndGradients) {
  nn::Llama model(llama_config("llama_tiny"));
  Golden golden("llama_tiny", model);
  golden.compare_logits(model, 1e-5);
  golden.compare_gradients(model, 1e-4);
}

TEST(GoldenTest, LlamaTrainsInterpreted) {
  nn::Llama model(llama_config("llama_tiny"));
  Golden golden("llama_tiny", model);
  golden.train(model, 3, 1e-4, {.backend = "interpret"});
}

TEST(GoldenTest, LlamaTrainsCompiled) {
  nn::Llama model(llama_config("llama_tiny"));
  Golden golden("llama_tiny", model);
  golden.train(model, 50, 1e-3, {});
}

TEST(GoldenTest, MlpTrainsInterpreted) {
  nn::MLP model({});
  Golden golden("mlp", model);
  golden.compare_logits(model, 1e-5);
  golden.compare_gradients(model, 1e-4);
  golden.train(model, 3, 1e-4, {.backend = "interpret"});
}

TEST(GoldenTest, TinyGptTrainsCompiled) {
  nn::GPT model(gpt_config("gpt_tiny"));
  Golden golden("gpt_tiny", model);
  golden.train(model, 10, 1e-4, {});
}

TEST(GoldenTest, MlpTrainsCompiled) {
  nn::MLP model({});
  Golden golden("mlp", model);
  golden.train(model, 50, 1e-4, {});
}

#define NEEDS_GPU()                                                     \
  if (const std::string why = device::cuda::why_no_gpu(); !why.empty()) \
  GTEST_SKIP() << "needs a GPU: " << why

TEST(GoldenTest, TinyGptTrainsOnGpu) {
  NEEDS_GPU();
  nn::GPT model(gpt_config("gpt_tiny"));
  Golden golden("gpt_tiny", model);
  golden.train(model, 10, 1e-3, {.backend = "cuda"});
}

TEST(GoldenTest, MlpTrainsOnGpu) {
  NEEDS_GPU();
  nn::MLP model({});
  Golden golden("mlp", model);
  golden.train(model, 50, 1e-3, {.backend = "cuda"});
}

TEST(GoldenTest, NanoGptTrainsOnGpu) {
  NEEDS_GPU();
  nn::GPT model(gpt_config("gpt_nano"));
  Golden golden("gpt_nano", model);
  golden.train(model, 200, 1e-3, {.backend = "cuda"});
}

// Beside PyTorch in float32: its own bf16 run is 2.6 % off that in a spike at step 41, ours is not.
TEST(GoldenTest, NanoGptTrainsOnGpuInBf16) {
  NEEDS_GPU();
  nn::GPT model(gpt_config("gpt_nano"));
  Golden golden("gpt_nano", model);
  golden.train(model, 200, 2e-2, {.backend = "cuda", .precision = "bf16"});
}

TEST(GoldenTest, TwoRunsOnGpuAreBitwiseEqual) {
  NEEDS_GPU();
  const auto run = [] {
    nn::GPT model(gpt_config("gpt_nano"));
    Golden golden("gpt_nano_bf16", model);
    golden.train(model, 10, 2e-2, {.backend = "cuda", .precision = "bf16"});
    std::vector<ir::Literal> states;
    for (const std::string& name : golden.session.state_names()) {
      states.push_back(golden.session.state(name));
    }
    return states;
  };
  EXPECT_EQ(run(), run());
}

TEST(GoldenTest, NanoGptTrainsCompiled) {
  nn::GPT model(gpt_config("gpt_nano"));
  Golden golden("gpt_nano", model);
  golden.train(model, 200, 1e-3, {});
}

// Products in bf16 on float32 parameters, as PyTorch's autocast does them.
TEST(GoldenTest, NanoGptTrainsInBF16) {
  nn::GPT model(gpt_config("gpt_nano_bf16"));
  Golden golden("gpt_nano_bf16", model);
  golden.train(model, 50, 2e-2, {.precision = "bf16"});
}

}  // namespace
}  // namespace monograph::session
