// Trains a small network to tell whether a point lies inside a circle: one compiled step holds
// forward, loss, backward, clipping and AdamW.
#include <fmt/format.h>

#include "base/philox.h"
#include "frontend/session/monograph.h"

using namespace monograph;

struct Net : nn::Module {
  nn::Linear hidden{*this, "hidden", 2, 32};
  nn::Linear out{*this, "out", 32, 2};
  Tensor operator()(const Tensor& x) const { return out(trace::relu(hidden(x))); }
};

int main() {
  Net net;
  optim::AdamW optimizer(net.parameters(),
                         {.learning_rate = optim::Schedule::constant(3e-2), .max_norm = 1.0});
  auto step = compile([&](const Tensor& points, const Tensor& labels) {
    const Tensor loss = trace::cross_entropy(net(points), labels);
    optimizer.step(loss.backward());
    return loss;
  });

  constexpr int64_t kRows = 256;
  for (int64_t i = 0; i < 300; ++i) {
    std::vector<float> points;
    std::vector<int64_t> labels;
    for (int64_t row = 0; row < kRows; ++row) {
      const float x = 2 * philox_uniform(1, i, 0, 2 * row) - 1;
      const float y = 2 * philox_uniform(1, i, 0, 2 * row + 1) - 1;
      points.insert(points.end(), {x, y});
      labels.push_back(x * x + y * y < 0.5f);
    }
    const double loss =
        step(Literal::from_f32({kRows, 2}, points), Literal::from_i64({kRows}, std::move(labels)))
            .loss();
    if (i % 50 == 49) fmt::print("step {:>3}  loss {:.4f}\n", i + 1, loss);
  }
}
