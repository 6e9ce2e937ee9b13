#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ir/literal.h"

namespace monograph::train {

// `count` bytes drawn one by one from the distributions that `next_logits` (i64[1, block] ->
// f32[1, 256]) gives after `prompt` (block bytes), sharpened a little. Stops early when `is_over`.
std::string sample_text(const std::function<ir::Literal(const ir::Literal&)>& next_logits,
                        std::string_view prompt, int64_t count, int64_t seed,
                        const std::function<bool()>& is_over);

// Bytes that are no printable ASCII as '?'.
std::string printable(std::string text);

}  // namespace monograph::train
