// The functions over tensors, compositions among them, against PyTorch's outputs and gradients
// (bench/golden/op_golden.py makes the file). All cases are one step: traced and compiled once.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using nlohmann::json;
using trace::Axes;
using trace::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&, const json&)>;

template <typename Call>
Function one(Call call) {
  return [call](const Tensors& x, const json& a) { return Tensors{call(x, a)}; };
}

template <typename Call>
Function reduction(Call call) {
  return one([call](const Tensors& x, const json& a) {
    return call(x[0], a.at("dim").get<Axes>(), a.at("keepdim").get<bool>());
  });
}

Function along(Tensor (*call)(trace::Argument, int)) {
  return one(
      [call](const Tensors& x, const json& a) { return call(x[0], a.at("dim").get<int>()); });
}

Function unary(Tensor (*call)(trace::Argument)) {
  return one([call](const Tensors& x, const json&) { return call(x[0]); });
}

Function binary(Tensor (*call)(trace::Argument, trace::Argument)) {
  return one([call](const Tensors& x, const json&) { return call(x[0], x[1]); });
}

std::map<std::string, Function> pointwise_functions() {
  using namespace trace;
  return {
      {"sigmoid", unary(sigmoid)},
      {"silu", unary(silu)},
      {"tanh", unary(tanh)},
      {"erf", unary(erf)},
      {"relu", unary(relu)},
      {"abs", unary(trace::abs)},
      {"neg", unary([](Argument x) { return -x; })},
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"exp", unary(exp)},
      {"log", unary(log)},
      {"sqrt", unary(sqrt)},
      {"rsqrt", unary(rsqrt)},
      {"reciprocal", unary(reciprocal)},
      {"add", binary([](Argument a, Argument b) { return a + b; })},
      {"sub", binary([](Argument a, Argument b) { return a - b; })},
      {"mul", binary([](Argument a, Argument b) { return a * b; })},
      {"div", binary([](Argument a, Argument b) { return a / b; })},
      {"maximum", binary(maximum)},
      {"minimum", binary(minimum)},
      {"eq", binary(eq)},
      {"ne", binary(ne)},
      {"lt", binary(lt)},
      {"le", binary(le)},
      {"gt", binary(gt)},
      {"ge", binary(ge)},
      {"where", one([](const Tensors& x, const json&) { return where(x[0], x[1], x[2]); })},
      {"pow", one([](const Tensors& x, const json& a) {
         return pow(x[0], a.at("exponent").get<double>());
       })},
      {"clamp", one([](const Tensors& x, const json& a) {
         return clamp(x[0], a.at("min").get<double>(), a.at("max").get<double>());
       })},
      {"gelu", one([](const Tensors& x, const json& a) {
         return gelu(x[0], a.at("approximate") == "tanh" ? Gelu::kTanh : Gelu::kErf);
       })},
  };
}

std::map<std::string, Function> row_functions() {
  using namespace trace;
  return {
      {"sum", reduction([](const Tensor& x, Axes axes, bool keep) { return sum(x, axes, keep); })},
      {"mean",
       reduction([](const Tensor& x, Axes axes, bool keep) { return mean(x, axes, keep); })},
      {"amax",
       reduction([](const Tensor& x, Axes axes, bool keep) { return amax(x, axes, keep); })},
      {"amin",
       reduction([](const Tensor& x, Axes axes, bool keep) { return amin(x, axes, keep); })},
      {"var", one([](const Tensors& x, const json& a) {
         return var(x[0], a.at("dim").get<Axes>(), a.at("keepdim").get<bool>(),
                    a.at("correction").get<int64_t>());
       })},
      {"softmax", along(softmax)},
      {"log_softmax", along(log_softmax)},
      {"logsumexp", one([](const Tensors& x, const json& a) {
         return logsumexp(x[0], a.at("dim")[0].get<int>(), a.at("keepdim").get<bool>());
       })},
      {"layer_norm", one([](const Tensors& x, const json& a) {
         return layer_norm(x[0], x[1], x[2], a.at("eps").get<double>());
       })},
      {"cross_entropy", binary(cross_entropy)},
      {"mm", binary(matmul)},
      {"bmm", binary(matmul)},
      {"addmm", one([](const Tensors& x, const json&) { return linear(x[1], x[2], x[0]); })},
      {"scaled_dot_product_attention", one([](const Tensors& x, const json& a) {
         return attention(x[0], x[1], x[2], a.at("is_causal").get<bool>());
       })},
  };
}

std::map<std::string, Function> layout_functions() {
  using namespace trace;
  return {
      {"embedding", binary(embedding)},
      {"permute",
       one([](const Tensors& x, const json& a) { return x[0].permute(a.at("dims").get<Axes>()); })},
      {"transpose", one([](const Tensors& x, const json& a) {
         return x[0].transpose(a.at("dim0").get<int>(), a.at("dim1").get<int>());
       })},
      {"reshape", one([](const Tensors& x, const json& a) {
         return x[0].reshape(a.at("shape").get<std::vector<int64_t>>());
       })},
      {"expand", one([](const Tensors& x, const json& a) {
         return x[0].expand(ir::Shape(a.at("size").get<std::vector<int64_t>>()));
       })},
      {"split",
       [](const Tensors& x, const json& a) {
         return x[0].split(a.at("split_size").get<int64_t>(), a.at("dim").get<int>());
       }},
      {"cat", one([](const Tensors& x, const json& a) { return cat(x, a.at("dim").get<int>()); })},
  };
}

ir::Literal literal_of(const json& tensor) {
  const ir::TensorType type{ir::parse_dtype(tensor.at("dtype").get<std::string>()),
                            ir::Shape(tensor.at("shape").get<std::vector<int64_t>>())};
  const json& data = tensor.at("data");
  return ir::Literal::from(type, [&](int64_t i) {
    return data[i].is_boolean() ? static_cast<double>(data[i].get<bool>()) : data[i].get<double>();
  });
}

// A case whose function there is, with its place among the inputs of the step.
struct Case {
  const json* given;
  Function function;
  size_t first_input;
};

class Cases {
 public:
  Cases() {
    std::map<std::string, Function> functions = pointwise_functions();
    functions.merge(row_functions());
    functions.merge(layout_functions());
    std::ifstream file(MONOGRAPH_SOURCE_DIR "/tests/golden/ops.json");
    all_ = json::parse(file);
    for (const json& each : all_) {
      const auto found = functions.find(each.at("op").get<std::string>());
      if (found == functions.end()) continue;
      cases_.push_back({&each, found->second, inputs_.size()});
      for (const json& input : each.at("inputs")) inputs_.push_back(literal_of(input));
      for (const json& upstream : each.at("upstream")) inputs_.push_back(literal_of(upstream));
    }
  }

  const std::vector<Case>& cases() const { return cases_; }

  Results run(const std::string& backend) const {
    const TracedFunction step{[this](const Tensors& inputs) { return traced(inputs); },
                              static_cast<int>(inputs_.size())};
    return Session().compile_traced(step, {.backend = backend})(inputs_);
  }

  static std::string name(size_t number, const char* what, size_t i) {
    return std::to_string(number) + "." + what + std::to_string(i);
  }

 private:
  Outputs traced(const Tensors& inputs) const {
    Outputs outputs;
    for (size_t n = 0; n < cases_.size(); ++n) {
      const json& given = *cases_[n].given;
      const size_t num_inputs = given.at("inputs").size();
      const auto first = inputs.begin() + static_cast<int64_t>(cases_[n].first_input);
      const Tensors x(first, first + static_cast<int64_t>(num_inputs));
      const Tensors y = cases_[n].function(x, given.at("attributes"));
      Tensor loss;
      for (size_t i = 0; i < y.size(); ++i) {
        outputs.emplace_back(name(n, "y", i), y[i]);
        if (given.at("upstream").size() <= i) continue;
        const Tensor part = trace::sum(y[i] * *(first + static_cast<int64_t>(num_inputs + i)));
        loss = loss ? loss + part : part;
      }
      for (size_t i = 0; i < num_inputs; ++i) {
        if (given.at("gradients").size() <= i || given.at("gradients")[i].is_null()) continue;
        outputs.emplace_back(name(n, "d", i), trace::gradients_of(loss, {x[i]})[0]);
      }
    }
    return outputs;
  }

  json all_;
  std::vector<Case> cases_;
  std::vector<ir::Literal> inputs_;
};

// Where a mean is subtracted, the rounding of the input decides.
double rounding_of(const json& given) {
  const std::string op = given.at("op").get<std::string>();
  if (op != "var" && op != "layer_norm") return 0;
  double largest = 0;
  for (const json& each : given.at("inputs")[0].at("data")) {
    largest = std::max(largest, std::abs(each.get<double>()));
  }
  return 5e-7 * largest;
}

void compare(const ir::Literal& got, const json& expected, double rounding,
             const std::string& what) {
  const ir::Literal literal = literal_of(expected);
  ASSERT_EQ(got.type(), literal.type()) << what;
  double largest = 0;
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    if (std::isfinite(literal.get(i))) largest = std::max(largest, std::abs(literal.get(i)));
  }
  // Cancellation costs digits of the largest element, not of each one.
  const double tolerance = rounding + 2e-5 * std::min(largest, 1.0) + 1e-30;
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    const double a = got.get(i), b = literal.get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    EXPECT_NEAR(a, b, tolerance + 2e-5 * std::abs(b)) << what << " element " << i;
  }
}

void compare_all(const std::string& backend) {
  const Cases cases;
  ASSERT_GT(cases.cases().size(), 80u);
  const Results results = cases.run(backend);
  for (size_t n = 0; n < cases.cases().size(); ++n) {
    const json& given = *cases.cases()[n].given;
    const std::string what = given.at("op").get<std::string>() + given.at("attributes").dump();
    for (size_t i = 0; i < given.at("outputs").size(); ++i) {
      compare(results[Cases::name(n, "y", i)], given.at("outputs")[i], rounding_of(given), what);
    }
    for (size_t i = 0; i < given.at("gradients").size(); ++i) {
      if (given.at("gradients")[i].is_null()) continue;
      compare(results[Cases::name(n, "d", i)], given.at("gradients")[i], rounding_of(given),
              what + " gradient " + std::to_string(i));
    }
  }
}

TEST(FunctionsTest, SigmoidAndItsGradientStayFinite) {
  const ir::Literal x = ir::Literal::from_f32({4}, {-200, -95, 95, 200});
  Compiled function = compile(
      [](const Tensor& t) {
        const Tensor y = trace::sigmoid(t), z = trace::silu(t);
        return Outputs{{"y", y},
                       {"dy", trace::gradients_of(trace::sum(y), {t})[0]},
                       {"dz", trace::gradients_of(trace::sum(z), {t})[0]}};
      },
      {.backend = "interpret"});
  const Results results = function(x);
  const auto expect = [&](const char* name, std::vector<float> values) {
    EXPECT_EQ(results[name], ir::Literal::from_f32({4}, values)) << name;
  };
  expect("y", {0, static_cast<float>(std::exp(-95.0)), 1, 1});
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(results["dy"].get(i), 0, 1e-30);
    EXPECT_NEAR(results["dz"].get(i), i < 2 ? 0 : 1, 1e-30);
  }
}

TEST(GoldenFunctionsTest, InterpretedAgreeWithPyTorch) {
  compare_all("interpret");
}
TEST(GoldenFunctionsTest, CompiledAgreeWithPyTorch) {
  compare_all("cpu");
}

}  // namespace
}  // namespace monograph::session
