#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/literal.h"

namespace monograph::train {

// `count` tokens drawn one by one from the distributions that `next_logits` (i64[1, block] ->
// f32[1, vocab]) gives after `prompt` (block tokens), sharpened a little. Stops early when
// `is_over`.
std::vector<int64_t> sample_tokens(
    const std::function<ir::Literal(const ir::Literal&)>& next_logits,
    const std::vector<int64_t>& prompt, int64_t count, int64_t seed,
    const std::function<bool()>& is_over);

// Tokens below 256 as bytes, others, of which there are none in a text, as '?'.
std::string bytes_of_tokens(std::span<const int64_t> tokens);

// Bytes that are no printable ASCII as '?'.
std::string printable(std::string text);

}  // namespace monograph::train
