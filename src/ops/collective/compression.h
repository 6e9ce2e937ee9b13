#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace monograph::ops {

// How gradients are made smaller before ranks exchange them. As an attribute of an all_reduce or a
// reduce_scatter, `compress`, it is written str(); passes::compress_exchange makes nodes of it.
struct Compression {
  enum class Method : uint8_t {
    kNone,
    kQsgd,      // levels by stochastic rounding (Alistarh et al., "QSGD", 2017)
    kTopK,      // the largest elements, what is left added next time (Stich et al., 2018)
    kPowerSgd,  // low-rank factors, likewise (Vogels et al., "PowerSGD", 2019)
  };
  Method method = Method::kNone;
  int64_t bits = 4;        // of kQsgd: 2, 4 or 8 an element
  double fraction = 0.01;  // of kTopK: of the elements of each tensor, in (0, 1]
  int64_t rank = 4;        // of kPowerSgd: columns of each factor, from 1
  // Smaller tensors, and those of fewer than two axes, are exchanged as they are.
  int64_t min_elements = 10'000;

  bool is_on() const { return method != Method::kNone; }
  // Whether each rank keeps what it has not sent.
  bool has_residual() const { return method == Method::kTopK || method == Method::kPowerSgd; }
  std::string str() const;  // "qsgd:4", "topk:0.01", "powersgd:4", "none"
  void check() const;       // UserError for bits, a fraction or a rank outside the above
  bool operator==(const Compression&) const = default;
};

// Of "qsgd:4", "topk:0.01", "powersgd:4" or "none". UserError says what is wrong with others.
Compression parse_compression(std::string_view text);

}  // namespace monograph::ops
