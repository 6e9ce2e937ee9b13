#include "train/sample.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace monograph::train {
namespace {

constexpr uint32_t kStream = 0x73616d70;  // "samp"
constexpr double kTemperature = 0.8;

char draw(const ir::Literal& logits, double u) {
  double largest = logits.get(0), total = 0;
  for (int64_t i = 1; i < logits.num_elements(); ++i) largest = std::max(largest, logits.get(i));
  const auto weight = [&](int64_t i) { return std::exp((logits.get(i) - largest) / kTemperature); };
  for (int64_t i = 0; i < logits.num_elements(); ++i) total += weight(i);
  double left = u * total;
  for (int64_t i = 0; i < logits.num_elements(); ++i) {
    left -= weight(i);
    if (left < 0) return static_cast<char>(i);
  }
  return static_cast<char>(logits.num_elements() - 1);
}

}  // namespace

std::string sample_text(const std::function<ir::Literal(const ir::Literal&)>& next_logits,
                        std::string_view prompt, int64_t count, int64_t seed,
                        const std::function<bool()>& is_over) {
  std::string text(prompt);
  const auto block = static_cast<int64_t>(prompt.size());
  for (int64_t i = 0; i < count && !is_over(); ++i) {
    std::vector<int64_t> window;
    for (int64_t at = 0; at < block; ++at) {
      window.push_back(static_cast<uint8_t>(text[text.size() - block + at]));
    }
    const ir::Literal logits = next_logits(ir::Literal::from_i64({1, block}, std::move(window)));
    text += draw(logits, philox_uniform(seed, i, kStream, 0));
  }
  return text.substr(prompt.size());
}

std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte >= 0x7f) c = '?';
  }
  return text;
}

}  // namespace monograph::train
