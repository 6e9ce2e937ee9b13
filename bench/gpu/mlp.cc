// Steps a second of a launch-bound MLP: 784-256-256-256-10, ReLU, batch 64, f32, AdamW, with new
// inputs in each step. Usage: bench_gpu_mlp [SECONDS] [DEVICE]
#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <random>

#include "base/error.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 784, 256}, fc2{*this, "fc2", 256, 256}, fc3{*this, "fc3", 256, 256},
      fc4{*this, "fc4", 256, 10};
  Tensor operator()(const Tensor& x) const {
    return fc4(trace::relu(fc3(trace::relu(fc2(trace::relu(fc1(x)))))));
  }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void run(double seconds, const std::string& device) {
  Net net;
  optim::AdamW optimizer(net.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .weight_decay = 0.01});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = trace::cross_entropy(net(x), y);
        optimizer.step(loss.backward());
        return loss;
      },
      {.backend = device});
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<Literal>> batches;
  for (int b = 0; b < 16; ++b) {
    std::vector<float> x(64 * 784);
    std::vector<int64_t> y(64);
    for (float& value : x) value = normal(random);
    for (int64_t& value : y) value = static_cast<int64_t>(random() % 10);
    batches.push_back({Literal::from_f32({64, 784}, x), Literal::from_i64({64}, y)});
  }
  const double first = step(batches[0]).loss();
  std::deque<std::function<session::Results()>> started;
  double loss = 0;
  const auto take = [&] {
    loss = started.front()().loss();
    started.pop_front();
  };
  int64_t num_steps = 0;
  Clock::time_point window = Clock::now();
  bool is_warm = false;
  while (!is_warm || seconds_since(window) < seconds) {
    if (!is_warm && num_steps == 200) {
      is_warm = true;
      num_steps = 0;
      window = Clock::now();
    }
    if (started.size() == session::Executable::kMaxStarted) take();
    started.push_back(step.start(batches[num_steps++ % 16]));
  }
  while (!started.empty()) take();
  const double rate = static_cast<double>(num_steps) / seconds_since(window);
  fmt::print(
      "RESULT "
      "{{\"fw\":\"monograph\",\"what\":\"mlp\",\"steps_s\":{:.0f},\"us_step\":{:.2f},\"loss0\":"
      "{:.5f},\"lossN\":{:.5f}}}\n",
      rate, 1e6 / rate, first, loss);
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) try {
  monograph::run(argc > 1 ? std::stod(argv[1]) : 3.0, argc > 2 ? argv[2] : "cuda");
} catch (const monograph::UserError& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
