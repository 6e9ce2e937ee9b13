#pragma once

#include "frontend/nn/module.h"

namespace monograph::nn {

// Rotary position embedding (Su et al., "RoFormer", 2021). Turned together are elements i and
// i + width / 2 of a head ("rotate half", as Hugging Face and GPT-NeoX pair them; Meta's own files
// pair 2 i and 2 i + 1). Cosine and sine of position * theta^(-2 i / width) are buffers,
// f32[length, 1, width / 2], so that no kernel works them out again.
class RotaryEmbedding : public Module {
 public:
  // length: most positions; width: of a head, even.
  RotaryEmbedding(Module& owner, std::string_view name, int64_t length, int64_t width,
                  double theta);
  // x: [batch, positions, heads, width].
  Tensor operator()(const Tensor& x) const;

  State cosine, sine;
};

}  // namespace monograph::nn
