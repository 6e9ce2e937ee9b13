#include "frontend/trace/custom_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "frontend/session/monograph.h"

namespace monograph::trace {
namespace {

using session::Compiled;
using testing::HasSubstr;
using Tensors = CustomGradient::Tensors;

// a * b whose gradients are ten times what they should be, so that one sees whose they are.
CustomGradient scaled_product() {
  return {"scaled_product", [](const Tensors& x) { return Tensors{x[0] * x[1]}; },
          [](const Tensors& x, const Tensors&, const Tensors& g) {
            return Tensors{g[0] * x[1] * 10.0, g[0] * x[0] * 10.0};
          }};
}

// The gradients of sum(f(a, b)) for both inputs, at a = (1, 2), b = (3, 4).
session::Results gradients_at(const CustomGradient& function, const std::string& backend) {
  Compiled step = session::compile(
      [&](const Tensor& a, const Tensor& b) {
        const Tensor loss = sum(function({a, b})[0]);
        const std::vector<Tensor> gradients = gradients_of(loss, {a, b});
        return Outputs{{"loss", loss}, {"a", gradients[0]}, {"b", gradients[1]}};
      },
      {.backend = backend});
  return step(ir::Literal::from_f32({2}, {1, 2}), ir::Literal::from_f32({2}, {3, 4}));
}

TEST(CustomGradientTest, TheUsersBackwardIsUsed) {
  for (const char* backend : {"interpret", "cpu"}) {
    const session::Results found = gradients_at(scaled_product(), backend);
    EXPECT_EQ(found.loss(), 11);
    EXPECT_EQ(found["a"], ir::Literal::from_f32({2}, {30, 40}));
    EXPECT_EQ(found["b"], ir::Literal::from_f32({2}, {10, 20}));
  }
}

TEST(CustomGradientTest, GradientsFlowThroughToWhatMadeTheInputs) {
  Compiled step = session::compile([&](const Tensor& x) {
    const Tensor loss = sum(scaled_product()({x * 2.0, detach(x)})[0]) * 3.0;
    return gradients_of(loss, {x})[0];
  });
  const session::Results found = step(ir::Literal::from_f32({2}, {1, 5}));
  EXPECT_EQ(found.values[0], ir::Literal::from_f32({2}, {60, 300}));
}

TEST(CustomGradientTest, UnusedOutputsHaveZeroCotangents) {
  const CustomGradient both{"both",
                            [](const Tensors& x) {
                              return Tensors{x[0] * 2.0, x[0] * 3.0};
                            },
                            [](const Tensors&, const Tensors&, const Tensors& g) {
                              return Tensors{g[0] + g[1] * 100.0};
                            }};
  Compiled step =
      session::compile([&](const Tensor& x) { return gradients_of(sum(both({x})[0]), {x})[0]; });
  EXPECT_EQ(step(ir::Literal({ir::DType::kF32, {2}})).values[0],
            ir::Literal::from_f32({2}, {1, 1}));
}

TEST(CustomGradientTest, AParameterReadInsideGetsNoGradientAndIsNamed) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
  } net;
  const CustomGradient hidden{
      "hidden", [&](const Tensors& x) { return Tensors{net.fc(x[0])}; },
      [](const Tensors& x, const Tensors&, const Tensors&) { return Tensors{x[0]}; }};
  Compiled step = session::compile([&](const Tensor& x) {
    const Tensor loss = sum(hidden({x})[0]);
    loss.backward();
    return loss;
  });
  step(ir::Literal({ir::DType::kF32, {1, 2}}));
  EXPECT_THAT(step.unused_parameters(), testing::UnorderedElementsAre("fc.weight", "fc.bias"));
}

std::string error_of(std::function<Tensors(const Tensors& x, const Tensor& g)> backward) {
  CustomGradient function = scaled_product();
  function.backward = [backward](const Tensors& x, const Tensors&, const Tensors& g) {
    return backward(x, g[0]);
  };
  try {
    gradients_at(function, "interpret");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(CustomGradientTest, WrongGradientsNameTheInput) {
  const std::string few = error_of([](const Tensors&, const Tensor& g) { return Tensors{g}; });
  EXPECT_THAT(few,
              HasSubstr("[scaled_product] backward returned 1 gradients for 2 inputs: none for "
                        "input 1 (input 'input1', f32[2]): return one for each input"));
  EXPECT_THAT(few, HasSubstr("called at "));
  EXPECT_THAT(few, HasSubstr("custom_gradient_test.cc:"));
  EXPECT_THAT(error_of([](const Tensors&, const Tensor& g) {
                return Tensors{g, g, g};
              }),
              HasSubstr("returned 3 gradients for 2 inputs"));
  EXPECT_THAT(
      error_of([](const Tensors&, const Tensor& g) {
        return Tensors{g, sum(g)};
      }),
      HasSubstr("backward returned f32[] as the gradient of input 1 (input 'input1', f32[2]): "
                "give it the input's shape"));
  EXPECT_THAT(
      error_of([](const Tensors&, const Tensor& g) {
        return Tensors{g.to(ir::DType::kF64), g};
      }),
      HasSubstr("returned f64[2] as the gradient of input 0 (input 'input0', f32[2]): cast it "
                "with to(f32)"));
}

TEST(CustomGradientTest, AnEmptyTensorIsNoGradient) {
  EXPECT_THAT(error_of([](const Tensors&, const Tensor& g) {
                return Tensors{g, Tensor()};
              }),
              HasSubstr("the loss does not depend on tensor 1 of 2"));
}

}  // namespace
}  // namespace monograph::trace
