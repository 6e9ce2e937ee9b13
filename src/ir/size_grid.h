#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Numbers that depend on dynamic sizes, known from instances of a step at some sizes.
namespace monograph::ir {

// A size that differs from call to call: largest, largest - step, ..., down to `least`.
struct DynamicSize {
  std::string name;
  int64_t least = 1, largest = 1, step = 1;
};

// Sizes, one a DynamicSize, as steps below the largest: {0, 2} is (largest, largest - 2 steps).
using SizeSteps = std::vector<int64_t>;

// The sizes at which a step is looked at. Every number in it is taken for a polynomial of the
// sizes, of degree 2 in each and 3 in all (batch x queries x keys): `points` determine it, `checks`
// are others at which it must give the same number.
class SizeGrid {
 public:
  static constexpr int kMostSizes = 3;
  // UserError for a range of fewer than kLeastSizes sizes, or more than kMostSizes of them.
  static constexpr int64_t kLeastSizes = 6;
  explicit SizeGrid(std::vector<DynamicSize> sizes);

  const std::vector<DynamicSize>& sizes() const { return sizes_; }
  const std::vector<SizeSteps>& points() const { return points_; }
  const std::vector<SizeSteps>& checks() const { return checks_; }
  std::vector<SizeSteps> instances() const;  // points, then checks
  std::vector<int64_t> sizes_at(const SizeSteps& steps) const;
  // Of sizes that fit the ranges; none otherwise.
  std::optional<SizeSteps> steps_of(std::span<const int64_t> sizes) const;

 private:
  std::vector<DynamicSize> sizes_;
  std::vector<SizeSteps> points_, checks_;
};

// A polynomial of the sizes by Newton's forward differences; exact in integers. Source: Knuth, The
// Art of Computer Programming, vol. 2, 4.6.4. T: int64_t or double.
template <typename T>
class SizePolynomial {
 public:
  // `values`: one an instance of the grid. None when no polynomial gives them all (for double: up
  // to a relative 1e-9).
  static std::optional<SizePolynomial> fit(const SizeGrid& grid, std::span<const T> values);
  T at(const SizeSteps& steps) const;
  bool is_constant() const;
  T least_term() const;  // the absolute value of its smallest coefficient; 0: it has none

 private:
  struct Term {
    std::array<int64_t, SizeGrid::kMostSizes> degrees = {};
    T difference = 0;
  };
  std::vector<Term> terms_;
};
using SizeNumber = SizePolynomial<int64_t>;

// A real number: constant, a polynomial, or one divided by a polynomial (1 / count, of a mean).
class SizeReal {
 public:
  static std::optional<SizeReal> fit(const SizeGrid& grid, std::span<const double> values);
  double at(const SizeSteps& steps) const;
  bool is_constant() const { return number_.is_constant() && polynomial_.is_constant(); }

 private:
  bool fit_whole(const SizeGrid& grid, std::span<const double> values);
  void make_exact(const SizeGrid& grid, std::span<const double> values);

  std::optional<double> constant_;  // at all sizes
  bool is_reciprocal_ = false;
  SizePolynomial<double> polynomial_;
  // Where the polynomial is a whole number times a factor, as 1 / count is: no rounding adds up.
  double factor_ = 0;  // 0: it is not
  SizeNumber number_;
};

}  // namespace monograph::ir
