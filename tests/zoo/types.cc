#include "program.h"

namespace monograph::zoo {
namespace {

template <typename Function>
std::function<Findings()> on(Function function, std::vector<ir::Literal> inputs) {
  return [=] {
    return examine(session::traced_function(function),
                   {.options = {.backend = "interpret"}, .calls = {inputs}});
  };
}

ir::Literal typed(ir::DType dtype, ir::Shape shape) {
  return ir::Literal({dtype, std::move(shape)});
}

Program product_of_two_dtypes() {
  return {"a product of two dtypes",
          on(
              [](const Tensor& x, const Tensor& w) {
                return sum(matmul(x, w));  // fault: product_of_two_dtypes
              },
              {numbers({4, 3}), typed(ir::DType::kF64, {3, 2})}),
          line_of(__FILE__, "product_of_two_dtypes"),
          {"[matmul]", "f32[4,3]", "f64[3,2]"}};
}

Program no_common_dtype() {
  return {"tokens added to ids",
          on(
              [](const Tensor& tokens, const Tensor& ids) {
                return sum((tokens + ids).to(ir::DType::kF32));  // fault: no_common_dtype
              },
              {typed(ir::DType::kU16, {3}), typed(ir::DType::kI32, {3})}),
          line_of(__FILE__, "no_common_dtype"),
          {"[add] operands are u16[3] and i32[3]", "convert one"}};
}

Program condition_of_numbers() {
  return {"a condition that is no bool",
          on(
              [](const Tensor& x) {
                return sum(where(x, x, 0.0));  // fault: condition_of_numbers
              },
              {numbers({4, 3})}),
          line_of(__FILE__, "condition_of_numbers"),
          {"[where] operand 'condition' is f32[4,3]: it takes bool", "ne(condition, 0)"}};
}

Program ids_of_floats() {
  return {"an embedding of floats",
          on(
              [](const Tensor& table, const Tensor& ids) {
                return sum(embedding(table, ids));  // fault: ids_of_floats
              },
              {numbers({4, 3}), numbers({2})}),
          line_of(__FILE__, "ids_of_floats"),
          {"[embedding]", "f32[2]"}};
}

Program inner_dims() {
  return {"a product whose inner dims differ",
          on(
              [](const Tensor& x, const Tensor& w) {
                return sum(matmul(x, w));  // fault: inner_dims
              },
              {numbers({4, 3}), numbers({2, 3})}),
          line_of(__FILE__, "inner_dims"),
          {"[matmul]", "f32[4,3]", "f32[2,3]"}};
}

Program no_broadcast() {
  return {"shapes that do not broadcast",
          on(
              [](const Tensor& x, const Tensor& y) {
                return sum(x - y);  // fault: no_broadcast
              },
              {numbers({4, 3}), numbers({4, 2})}),
          line_of(__FILE__, "no_broadcast"),
          {"[sub] shapes [4,3] and [4,2] do not broadcast"}};
}

Program bad_reshape() {
  return {"a reshape to another count",
          on(
              [](const Tensor& x) {
                return sum(x.reshape({5, -1}));  // fault: bad_reshape
              },
              {numbers({4, 3})}),
          line_of(__FILE__, "bad_reshape"),
          {"[reshape] f32[4,3] into [5,-1]: 12 elements do not divide by 5"}};
}

Program bad_axis() {
  return {"an axis that is none",
          on(
              [](const Tensor& x) {
                return sum(x.transpose(0, 2));  // fault: bad_axis
              },
              {numbers({4, 3})}),
          line_of(__FILE__, "bad_axis"),
          {"[transpose] axis 2 out of range for a tensor of rank 2", "use -2..1"}};
}

Program bad_slice() {
  return {"a slice past the end",
          on(
              [](const Tensor& x) {
                return sum(x.slice(1, 2, 4));  // fault: bad_slice
              },
              {numbers({4, 3})}),
          line_of(__FILE__, "bad_slice"),
          {"[slice] start 2 and end 4 on axis 1 of f32[4,3]", "use 0 <= start < end <= 3"}};
}

}  // namespace

std::vector<Program> type_programs() {
  return {product_of_two_dtypes(), no_common_dtype(), condition_of_numbers(),
          ids_of_floats(),         inner_dims(),      no_broadcast(),
          bad_reshape(),           bad_axis(),        bad_slice()};
}

}  // namespace monograph::zoo
