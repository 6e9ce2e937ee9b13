#include "ir/size_grid.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace monograph::ir {
namespace {

constexpr int64_t kMostDegree = 2;       // in one size
constexpr int64_t kMostTotalDegree = 3;  // in all

int64_t choose(int64_t n, int64_t k) {
  return k == 0 ? 1 : k == 1 ? n : n * (n - 1) / 2;
}

bool is_zero(int64_t rest, int64_t) {
  return rest == 0;
}
bool is_zero(double rest, double value) {
  return std::abs(rest) <= 1e-9 * std::abs(value);
}

int64_t total(const SizeSteps& steps) {
  int64_t sum = 0;
  for (const int64_t step : steps) sum += step;
  return sum;
}

// All exponents up to `most` in each place.
void add_exponents(size_t num_sizes, SizeSteps& prefix, std::vector<SizeSteps>& all) {
  if (prefix.size() == num_sizes) {
    if (total(prefix) <= kMostTotalDegree) all.push_back(prefix);
    return;
  }
  for (int64_t degree = 0; degree <= kMostDegree; ++degree) {
    prefix.push_back(degree);
    add_exponents(num_sizes, prefix, all);
    prefix.pop_back();
  }
}

}  // namespace

SizeGrid::SizeGrid(std::vector<DynamicSize> sizes) : sizes_(std::move(sizes)) {
  if (sizes_.empty() || sizes_.size() > kMostSizes) {
    throw_user_error("{} dynamic sizes: declare 1 to {} Dims of different names", sizes_.size(),
                     kMostSizes);
  }
  for (const DynamicSize& size : sizes_) {
    const bool is_valid = size.step >= 1 && size.least >= 1 && size.largest % size.step == 0 &&
                          (size.largest - size.least) / size.step + 1 >= kLeastSizes;
    if (!is_valid) {
      throw_user_error(
          "Dim '{}' of {}..{}, each a multiple of {}: give a range of {} sizes or more that ends "
          "at "
          "a multiple, or leave the dim fixed",
          size.name, size.least, size.largest, size.step, kLeastSizes);
    }
  }
  SizeSteps prefix;
  add_exponents(sizes_.size(), prefix, points_);
  SizeSteps near, half;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const int64_t most =
        (sizes_[i].largest - std::max<int64_t>(sizes_[i].least, 2)) / sizes_[i].step;
    near.push_back(std::min<int64_t>(most, 3 + static_cast<int64_t>(i)));
    half.push_back(std::max<int64_t>(near.back(), most / 2 - static_cast<int64_t>(i)));
  }
  checks_ = {near};
  if (half != near) checks_.push_back(half);
}

std::vector<SizeSteps> SizeGrid::instances() const {
  std::vector<SizeSteps> all = points_;
  all.insert(all.end(), checks_.begin(), checks_.end());
  return all;
}

std::vector<int64_t> SizeGrid::sizes_at(const SizeSteps& steps) const {
  std::vector<int64_t> result;
  for (size_t i = 0; i < steps.size(); ++i) {
    result.push_back(sizes_[i].largest - steps[i] * sizes_[i].step);
  }
  return result;
}

std::optional<SizeSteps> SizeGrid::steps_of(std::span<const int64_t> sizes) const {
  SizeSteps steps;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const DynamicSize& range = sizes_[i];
    const bool fits = sizes[i] >= range.least && sizes[i] <= range.largest &&
                      (range.largest - sizes[i]) % range.step == 0;
    if (!fits) return std::nullopt;
    steps.push_back((range.largest - sizes[i]) / range.step);
  }
  return steps;
}

template <typename T>
std::optional<SizePolynomial<T>> SizePolynomial<T>::fit(const SizeGrid& grid,
                                                        std::span<const T> values) {
  SizePolynomial polynomial;
  const std::vector<SizeSteps> instances = grid.instances();
  check(values.size() == instances.size(), "{} values for {} instances", values.size(),
        instances.size());
  for (size_t i = 0; i < instances.size(); ++i) {
    // Smaller exponents come first among the points: what the terms so far give differs from the
    // value by the next difference.
    const T rest = values[i] - polynomial.at(instances[i]);
    if (is_zero(rest, values[i])) continue;
    if (i >= grid.points().size()) return std::nullopt;
    Term term{{}, rest};
    std::copy(instances[i].begin(), instances[i].end(), term.degrees.begin());
    polynomial.terms_.push_back(term);
  }
  return polynomial;
}

template <typename T>
T SizePolynomial<T>::at(const SizeSteps& steps) const {
  T sum = 0;
  for (const Term& term : terms_) {
    int64_t ways = 1;
    for (size_t i = 0; i < steps.size(); ++i) ways *= choose(steps[i], term.degrees[i]);
    sum += term.difference * static_cast<T>(ways);
  }
  return sum;
}

template <typename T>
bool SizePolynomial<T>::is_constant() const {
  return std::all_of(terms_.begin(), terms_.end(), [](const Term& term) {
    return std::all_of(term.degrees.begin(), term.degrees.end(), [](int64_t d) { return d == 0; });
  });
}

template <typename T>
T SizePolynomial<T>::least_term() const {
  T least = 0;
  for (const Term& term : terms_) {
    const T size = std::abs(term.difference);
    if (least == 0 || size < least) least = size;
  }
  return least;
}

template class SizePolynomial<int64_t>;
template class SizePolynomial<double>;

// A whole number over a few, as 1 / count and 2 / count are; also where it was rounded to float32.
bool SizeReal::fit_whole(const SizeGrid& grid, std::span<const double> values) {
  constexpr double kRounding = 1.2e-7;
  for (const bool divides : {true, false}) {
    for (const double factor : {1.0, 2.0, 3.0, 4.0, 0.5, 0.25}) {
      std::vector<int64_t> numbers;
      for (const double value : values) {
        const double ratio = divides ? factor / value : value / factor;
        if (!(std::abs(ratio) < 1e6) || std::llround(ratio) == 0) break;
        if (std::abs(ratio - std::round(ratio)) > kRounding * std::abs(ratio)) break;
        numbers.push_back(std::llround(ratio));
      }
      if (numbers.size() != values.size()) continue;
      const std::optional<SizeNumber> found = SizeNumber::fit(grid, numbers);
      if (!found) continue;
      number_ = *found;
      is_reciprocal_ = divides;
      factor_ = divides ? 1 / factor : factor;
      return true;
    }
  }
  return false;
}

std::optional<SizeReal> SizeReal::fit(const SizeGrid& grid, std::span<const double> values) {
  SizeReal real;
  std::vector<double> wanted(values.begin(), values.end());
  const bool is_constant =
      std::adjacent_find(wanted.begin(), wanted.end(), std::not_equal_to<>()) == wanted.end();
  if (is_constant) {  // an infinity, too
    real.constant_ = wanted[0];
    return real;
  }
  if (real.fit_whole(grid, values)) return real;
  const bool has_zero = std::find(wanted.begin(), wanted.end(), 0.0) != wanted.end();
  if (!has_zero) {
    for (double& value : wanted) value = 1 / value;
    real.is_reciprocal_ = true;
  }
  std::optional<SizePolynomial<double>> found = SizePolynomial<double>::fit(grid, wanted);
  if (!found && real.is_reciprocal_) {
    real.is_reciprocal_ = false;
    found = SizePolynomial<double>::fit(grid, values);
  }
  if (!found) return std::nullopt;
  real.polynomial_ = *found;
  real.make_exact(grid, real.is_reciprocal_ ? wanted : std::vector(values.begin(), values.end()));
  return real;
}

void SizeReal::make_exact(const SizeGrid& grid, std::span<const double> values) {
  const double unit = polynomial_.least_term();
  if (unit == 0) return;
  std::vector<int64_t> numbers;
  for (const double value : values) {
    const double ratio = value / unit;
    if (std::abs(ratio) > 1e15) return;
    numbers.push_back(std::llround(ratio));
    const double off = std::abs(ratio - static_cast<double>(numbers.back()));
    if (numbers.back() == 0 || off > 1e-6 * std::max(1.0, std::abs(ratio))) return;
  }
  const std::optional<SizeNumber> found = SizeNumber::fit(grid, numbers);
  if (!found) return;
  number_ = *found;
  factor_ = values[0] / static_cast<double>(numbers[0]);
}

double SizeReal::at(const SizeSteps& steps) const {
  if (constant_) return *constant_;
  if (factor_ != 0) {
    const auto number = static_cast<double>(number_.at(steps));
    return is_reciprocal_ ? 1 / factor_ / number : factor_ * number;
  }
  const double value = polynomial_.at(steps);
  return is_reciprocal_ ? 1 / value : value;
}

}  // namespace monograph::ir
