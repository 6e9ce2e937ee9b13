#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "ops/elements.h"
#include "ops/evaluate.h"

// What the references give where golden values and gradients do not look: integers, NaN, rounding,
// order, padding, and values that are refused.
namespace monograph::ops {
namespace {

using ir::DType;
using ir::Literal;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> elements(const Literal& literal) {
  return read_elements<double>(literal);
}

Literal of_dtype(DType dtype, const std::vector<double>& values) {
  return Literal::from({dtype, {static_cast<int64_t>(values.size())}},
                       [&](int64_t i) { return values[i]; });
}

std::string error_of(std::string_view op, const std::vector<Literal>& operands,
                     const ir::Attributes& attributes = {}) {
  try {
    evaluate(op, operands, attributes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Reference, KeepsIntegersExact) {
  const int64_t big = (int64_t{1} << 53) + 1;  // no double
  const Literal a = Literal::from_i64({2}, {big, -3}), b = Literal::from_i64({2}, {big - 1, 2});
  EXPECT_EQ(evaluate("add", {a, b})[0], Literal::from_i64({2}, {2 * big - 1, -1}));
  EXPECT_EQ(evaluate("sub", {a, b})[0], Literal::from_i64({2}, {1, -5}));
  EXPECT_EQ(evaluate("maximum", {a, b})[0], Literal::from_i64({2}, {big, 2}));
  EXPECT_THAT(elements(evaluate("eq", {a, b})[0]), ElementsAre(0, 0));
  EXPECT_EQ(evaluate("convert", {a}, {{"dtype", DType::kI64}})[0], a);
  const ir::Attributes axes{{"axes", std::vector<int64_t>{0}}, {"keepdim", false}};
  EXPECT_EQ(evaluate("sum", {a}, axes)[0].get_i64(0), big - 3);
  EXPECT_EQ(evaluate("amax", {a}, axes)[0].get_i64(0), big);
  const Literal yes = of_dtype(DType::kBool, {1, 0});
  EXPECT_EQ(evaluate("where", {yes, a, b})[0], Literal::from_i64({2}, {big, 2}));
}

TEST(Reference, LetsNaNThrough) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Literal a = of_dtype(DType::kF32, {nan, 1, 2}), b = of_dtype(DType::kF32, {1, nan, 3});
  for (const char* op : {"maximum", "minimum"}) {
    const std::vector<double> result = elements(evaluate(op, {a, b})[0]);
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]) && !std::isnan(result[2])) << op;
  }
  const ir::Attributes axes{{"axes", std::vector<int64_t>{0}}, {"keepdim", false}};
  EXPECT_TRUE(std::isnan(evaluate("amax", {a}, axes)[0].get(0)));
  EXPECT_TRUE(std::isnan(evaluate("amax", {b}, axes)[0].get(0)));
  EXPECT_THAT(elements(evaluate("ne", {a, a})[0]), ElementsAre(1, 0, 0));
}

TEST(Reference, ConvertsAsCDoes) {
  const auto to = [](DType dtype, const Literal& x) {
    return elements(evaluate("convert", {x}, {{"dtype", dtype}})[0]);
  };
  const Literal x = of_dtype(DType::kF32, {-1.75, -0.25, 0, 0.25, 2.75});
  EXPECT_THAT(to(DType::kI64, x), ElementsAre(-1, 0, 0, 0, 2));
  EXPECT_THAT(to(DType::kBool, x), ElementsAre(1, 1, 0, 1, 1));
  EXPECT_THAT(to(DType::kF32, of_dtype(DType::kBool, {1, 0})), ElementsAre(1, 0));
  // A tie between two bf16 goes to the even one.
  EXPECT_THAT(to(DType::kBF16, of_dtype(DType::kF32, {1 + 0x1p-8, 1 + 0x3p-8})),
              ElementsAre(1, 1 + 0x4p-8));
}

TEST(Reference, CountsAlongAnAxis) {
  const auto iota = [](int64_t axis) {
    return elements(evaluate(
        "iota", {},
        {{"shape", std::vector<int64_t>{2, 3}}, {"axis", axis}, {"dtype", DType::kI32}})[0]);
  };
  EXPECT_THAT(iota(0), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(iota(1), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Reference, DrawsByElementNumber) {
  const Literal seed = Literal::from_i64({}, {-5}), step = Literal::from_i64({}, {3});
  for (const int64_t part : {0, 7}) {
    const Literal drawn =
        evaluate("philox_uniform", {seed, step, Literal::from_i64({}, {part})},
                 {{"shape", std::vector<int64_t>{2, 3}}, {"stream", int64_t{8}}})[0];
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(drawn.as<float>()[i], philox_uniform(-5, 3, 8, 6 * part + i));
    }
  }
}

TEST(Reference, SortsIdsStablyAndSumsTheirRows) {
  const Literal ids = Literal::from_i64({2, 3}, {2, 0, 2, 3, 0, 2});
  const std::vector<Literal> sorted = evaluate("sort_ids", {ids}, {{"num_ids", int64_t{5}}});
  EXPECT_THAT(elements(sorted[0]), ElementsAre(1, 4, 0, 2, 5, 3));
  EXPECT_THAT(elements(sorted[1]), ElementsAre(0, 2, 2, 5, 6, 6));
  const Literal rows = Literal::from_f32({2, 3, 1}, {1, 2, 4, 8, 16, 32});
  EXPECT_THAT(elements(evaluate("segment_sum", {rows, sorted[0], sorted[1]})[0]),
              ElementsAre(18, 0, 37, 8, 0));
}

TEST(Reference, KeepsEqualIdsInOrder) {
  std::vector<int64_t> ids(200);
  for (int64_t i = 0; i < 200; ++i) ids[i] = i * 7 % 3;
  const Literal order =
      evaluate("sort_ids", {Literal::from_i64({200}, ids)}, {{"num_ids", int64_t{3}}})[0];
  for (int64_t i = 1; i < 200; ++i) {
    const int64_t before = order.get_i64(i - 1), after = order.get_i64(i);
    EXPECT_TRUE(ids[before] < ids[after] || (ids[before] == ids[after] && before < after)) << i;
  }
}

// In this order float32 gives 0 and then 1; double, or another order, would not.
TEST(Reference, SumsSegmentsInOrderInFloat32) {
  const Literal rows = Literal::from_f32({4, 1}, {1, 0x1p30f, -0x1p30f, 1});
  const Literal order = of_dtype(DType::kI32, {0, 1, 2, 3}),
                offsets = of_dtype(DType::kI32, {0, 4});
  EXPECT_THAT(elements(evaluate("segment_sum", {rows, order, offsets})[0]), ElementsAre(1));
}

TEST(Reference, RefusesIdsOutOfRange) {
  const Literal weight = Literal::from_f32({2, 1}, {1, 2});
  EXPECT_EQ(error_of("embedding", {weight, Literal::from_i64({2}, {1, 2})}),
            "[embedding] id 2 at position 1 of i64[2] is out of range: use 0..1");
  EXPECT_THAT(error_of("embedding", {weight, Literal::from_i64({1}, {-1})}), HasSubstr("id -1"));
  EXPECT_THAT(
      error_of("gather", {weight, Literal::from_i64({2, 1}, {0, 1})}, {{"axis", int64_t{1}}}),
      HasSubstr("[gather] id 1 at position 1"));
  EXPECT_THAT(error_of("sort_ids", {Literal::from_i64({1}, {3})}, {{"num_ids", int64_t{3}}}),
              HasSubstr("[sort_ids] id 3 at position 0"));
}

TEST(Reference, PacksWithPaddingAndUnpacks) {
  const std::vector<Literal> parts = {Literal::from_f32({2, 1}, {1, 2}), Literal::from_f32({}, {3}),
                                      Literal::from_f32({4}, {4, 5, 6, 7})};
  const Literal packed = evaluate("pack", parts, {{"alignment", int64_t{4}}})[0];
  EXPECT_THAT(elements(packed), ElementsAre(1, 2, 0, 0, 3, 0, 0, 0, 4, 5, 6, 7));
  const std::vector<ir::Shape> shapes = {{2, 1}, {}, {4}};
  EXPECT_EQ(evaluate("unpack", {packed}, {{"shapes", shapes}, {"alignment", int64_t{4}}}), parts);
}

// A bf16 product is accumulated as numbers, not as bf16: 1 + 256 * 2^-9 in steps would stay 1.
TEST(Reference, RoundsAProductOnce) {
  std::vector<double> small(257, 0x1p-9);
  small[0] = 1;
  Literal a({DType::kBF16, {1, 257}}), b({DType::kBF16, {257, 1}});
  for (int64_t i = 0; i < 257; ++i) {
    a.set(i, small[i]);
    b.set(i, 1);
  }
  EXPECT_EQ(evaluate("matmul", {a, b})[0].get(0), 1.5);
}

TEST(Elements, StepThroughStrides) {
  const std::vector<int64_t> strides = {1, 10};
  EXPECT_THAT(strided_positions({2, 3}, strides, 5), ElementsAre(5, 15, 25, 6, 16, 26));
  EXPECT_THAT(broadcast_positions({2, 1}, {2, 2, 2}), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(broadcast_positions({}, {2}), ElementsAre(0, 0));
}

}  // namespace
}  // namespace monograph::ops
