// Trains a small ResNet with SGD and momentum on a file of CIFAR-10's binary version, and measures
// it on the last tenth, with the running statistics of its batch norms.
// Usage: train_resnet data_batch_1.bin [STEPS]
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "frontend/session/monograph.h"

using namespace monograph;

namespace {

constexpr int64_t kSize = 32, kChannels = 3, kPixels = kSize * kSize, kRows = 32;
constexpr int64_t kRecord = 1 + kChannels * kPixels;  // a label, then a plane a colour

struct Images {
  explicit Images(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw_user_error("cannot read '{}'", path);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes.empty() || bytes.size() % kRecord != 0) {
      throw_user_error("'{}' has {} bytes: a CIFAR-10 file has records of {}", path, bytes.size(),
                       kRecord);
    }
    if (count() < 10 * kRows) throw_user_error("{} images: give {} or more", count(), 10 * kRows);
  }
  int64_t count() const { return std::ssize(bytes) / kRecord; }

  // Images first, first + 1, ..., channels last, in [-1, 1], and their labels.
  std::pair<Literal, Literal> batch(int64_t first) const {
    std::vector<float> pixels;
    std::vector<int64_t> labels;
    for (int64_t row = first; row < first + kRows; ++row) {
      const auto* record = reinterpret_cast<const uint8_t*>(bytes.data()) + row * kRecord;
      labels.push_back(record[0]);
      for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
        for (int64_t channel = 0; channel < kChannels; ++channel) {
          const float value = record[1 + channel * kPixels + pixel];
          pixels.push_back(value / 127.5f - 1);
        }
      }
    }
    return {Literal::from_f32({kRows, kSize, kSize, kChannels}, pixels),
            Literal::from_i64({kRows}, labels)};
  }

  std::vector<char> bytes;
};

int64_t num_right(const Literal& logits, const Literal& labels) {
  const int64_t classes = logits.type().shape[1];
  const float* row = logits.as<float>().data();
  int64_t right = 0;
  for (int64_t i = 0; i < kRows; ++i, row += classes) {
    right += std::max_element(row, row + classes) - row == labels.get_i64(i);
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw_user_error("no images: give data_batch_1.bin of CIFAR-10's binary version");
  const int64_t num_steps = argc > 2 ? std::stoll(argv[2]) : 300;
  const Images images(argv[1]);
  const int64_t num_training = images.count() * 9 / 10;

  nn::ResNet model({.blocks = {1, 1, 1}, .is_bottleneck = false, .width = 32, .num_classes = 10});
  optim::SGD optimizer(model.parameters(),
                       {.learning_rate = optim::Schedule::cosine(0.05, 0.001, 20, num_steps),
                        .momentum = 0.9,
                        .weight_decay = 5e-4});
  Session session;
  auto step = session.compile([&](const Tensor& x, const Tensor& labels) {
    const Tensor loss = model.loss(x, labels);
    optimizer.step(loss.backward());
    return loss;
  });
  for (int64_t i = 0; i < num_steps; ++i) {
    const auto [x, labels] = images.batch(i * kRows % (num_training - kRows));
    const double loss = step(x, labels).loss();
    if (i % 20 == 19) fmt::print("step {:>4}  loss {:.4f}\n", i + 1, loss);
  }

  model.eval();
  auto logits = session.compile([&](const Tensor& x) { return model(x); });
  int64_t right = 0, total = 0;
  for (int64_t first = num_training; first + kRows <= images.count(); first += kRows) {
    const auto [x, labels] = images.batch(first);
    right += num_right(logits(x).values[0], labels);
    total += kRows;
  }
  fmt::print("{} of {} images right\n", right, total);
} catch (const UserError& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
