#include "ops/collective/compression.h"

#include <charconv>
#include <string>

#include "base/error.h"

namespace monograph::ops {
namespace {

using Method = Compression::Method;

template <typename Number>
Number parse_number(std::string_view text, std::string_view number, const char* what) {
  Number value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || stop != end) {
    throw_user_error("compression '{}': '{}' is no {}", text, number, what);
  }
  return value;
}

}  // namespace

std::string Compression::str() const {
  switch (method) {
    case Method::kNone:
      return "none";
    case Method::kQsgd:
      return fmt::format("qsgd:{}", bits);
    case Method::kTopK:
      return fmt::format("topk:{}", fraction);
    case Method::kPowerSgd:
      return fmt::format("powersgd:{}", rank);
  }
  return "";
}

void Compression::check() const {
  if (method == Method::kQsgd && bits != 2 && bits != 4 && bits != 8) {
    throw_user_error("compression qsgd of {} bits: use 2, 4 or 8, as qsgd:4", bits);
  }
  if (method == Method::kTopK && !(fraction > 0 && fraction <= 1)) {
    throw_user_error(
        "compression topk of {} of the elements: use a fraction above 0, up to 1, as topk:0.01",
        fraction);
  }
  if (method == Method::kPowerSgd && rank < 1) {
    throw_user_error("compression powersgd of rank {}: use 1 or more, as powersgd:4", rank);
  }
}

Compression parse_compression(std::string_view text) {
  Compression result;
  if (text == "none") return result;
  const size_t colon = text.find(':');
  const std::string_view method = text.substr(0, colon);
  if (colon == text.npos || (method != "qsgd" && method != "topk" && method != "powersgd")) {
    throw_user_error(
        "compression '{}': use qsgd:BITS (2, 4 or 8), topk:FRACTION (above 0, up to 1), "
        "powersgd:RANK (from 1) or none",
        text);
  }
  const std::string_view number = text.substr(colon + 1);
  if (method == "qsgd") {
    result.method = Method::kQsgd;
    result.bits = parse_number<int64_t>(text, number, "number of bits: use 2, 4 or 8");
  } else if (method == "topk") {
    result.method = Method::kTopK;
    result.fraction = parse_number<double>(text, number, "fraction: use one above 0, up to 1");
  } else {
    result.method = Method::kPowerSgd;
    result.rank = parse_number<int64_t>(text, number, "rank: use a whole number from 1");
  }
  result.check();
  return result;
}

}  // namespace monograph::ops
