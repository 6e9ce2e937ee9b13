#include "train/sample.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace monograph::train {
namespace {

constexpr uint32_t kStream = 0x73616d70;  // "samp"
constexpr double kTemperature = 0.8;

int64_t draw(const ir::Literal& logits, double u) {
  double largest = logits.get(0), total = 0;
  for (int64_t i = 1; i < logits.num_elements(); ++i) largest = std::max(largest, logits.get(i));
  const auto weight = [&](int64_t i) { return std::exp((logits.get(i) - largest) / kTemperature); };
  for (int64_t i = 0; i < logits.num_elements(); ++i) total += weight(i);
  double left = u * total;
  for (int64_t i = 0; i < logits.num_elements(); ++i) {
    left -= weight(i);
    if (left < 0) return i;
  }
  return logits.num_elements() - 1;
}

}  // namespace

std::vector<int64_t> sample_tokens(
    const std::function<ir::Literal(const ir::Literal&)>& next_logits,
    const std::vector<int64_t>& prompt, int64_t count, int64_t seed,
    const std::function<bool()>& is_over) {
  std::vector<int64_t> tokens = prompt;
  const auto block = std::ssize(prompt);
  for (int64_t i = 0; i < count && !is_over(); ++i) {
    const std::vector<int64_t> window(tokens.end() - block, tokens.end());
    const ir::Literal logits = next_logits(ir::Literal::from_i64({1, block}, window));
    tokens.push_back(draw(logits, philox_uniform(seed, i, kStream, 0)));
  }
  return {tokens.begin() + block, tokens.end()};
}

std::string bytes_of_tokens(std::span<const int64_t> tokens) {
  std::string text;
  for (const int64_t token : tokens) text += token < 256 ? static_cast<char>(token) : '?';
  return text;
}

std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte >= 0x7f) c = '?';
  }
  return text;
}

}  // namespace monograph::train
