#include "frontend/trace/custom_gradient.h"
#include "program.h"

namespace monograph::zoo {
namespace {

using trace::CustomGradient;
using Tensors = CustomGradient::Tensors;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 3, 1};
  nn::Linear idle{*this, "idle", 3, 1};
};

// The program has the network to itself.
std::function<Findings()> with_net(std::function<Tensor(const Net&, const Tensor&)> function) {
  return [=] {
    const auto net = std::make_shared<Net>();
    return examine(session::traced_function([=](const Tensor& x) { return function(*net, x); }),
                   {.options = {.backend = "interpret"}, .calls = {{numbers({4, 3})}}});
  };
}

Tensor trained(const Tensor& loss) {
  loss.backward();
  return loss;
}

Program unused_parameter() {
  return {"a parameter that the loss does not reach",
          with_net([](const Net& net, const Tensor& x) {
            return trained(sum(net.fc(x)) + sum(detach(net.idle(x))));
          }),
          0,
          {"parameter 'idle.weight'", "the loss does not depend on it"}};
}

Program detached_loss() {
  return {"a loss that was detached",
          with_net([](const Net& net, const Tensor& x) { return trained(sum(detach(net.fc(x)))); }),
          0,
          {"parameter 'fc.weight'", "the loss does not depend on it"}};
}

Program frozen_parameter() {
  return {"a gradient asked of a frozen parameter",
          [] {
            const auto net = std::make_shared<Net>();
            net->freeze();
            return examine(session::traced_function([=](const Tensor& x) {
                             return sum(sum(net->fc(x)).backward()[*net->fc.bias]);
                           }),
                           {.options = {.backend = "interpret"}, .calls = {{numbers({4, 3})}}});
          },
          0,
          {"parameter 'fc.bias' has no gradient: it is frozen"}};
}

Program loss_of_many() {
  return {"a loss of many elements",
          with_net([](const Net& net, const Tensor& x) {
            const Tensor loss = net.fc(x);
            loss.backward();  // fault: loss_of_many
            return sum(loss);
          }),
          line_of(__FILE__, "loss_of_many"),
          {"backward: the loss is f32[4,1]", "mean()"}};
}

CustomGradient doubling(std::function<Tensors(const Tensors&, const Tensor&)> backward) {
  return {"doubling", [](const Tensors& x) { return Tensors{x[0] * 2.0 + x[1]}; },
          [=](const Tensors& x, const Tensors&, const Tensors& g) { return backward(x, g[0]); }};
}

Program too_few_gradients() {
  return {"a backward with too few gradients",
          with_net([](const Net& net, const Tensor& x) {
            const auto function =
                doubling([](const Tensors&, const Tensor& g) { return Tensors{g}; });
            return trained(sum(function({net.fc(x), net.fc(x)})[0]));  // fault: too_few_gradients
          }),
          line_of(__FILE__, "too_few_gradients"),
          {"[doubling] backward returned 1 gradients for 2 inputs", "none for input 1",
           "return one for each input"}};
}

Program gradient_of_other_shape() {
  return {
      "a backward that sums too much",
      with_net([](const Net& net, const Tensor& x) {
        const auto function = doubling([](const Tensors&, const Tensor& g) {
          return Tensors{sum(g), g};
        });
        return trained(sum(function({net.fc(x), net.fc(x)})[0]));  // fault: gradient_of_other_shape
      }),
      line_of(__FILE__, "gradient_of_other_shape"),
      {"backward returned f32[] as the gradient of input 0", "the input's shape"}};
}

Program gradient_of_other_dtype() {
  return {
      "a backward in another dtype",
      with_net([](const Net& net, const Tensor& x) {
        const auto function = doubling([](const Tensors&, const Tensor& g) {
          return Tensors{g, g.to(ir::DType::kF64)};
        });
        return trained(sum(function({net.fc(x), net.fc(x)})[0]));  // fault: gradient_of_other_dtype
      }),
      line_of(__FILE__, "gradient_of_other_dtype"),
      {"backward returned f64[4,1] as the gradient of input 1", "to(f32)"}};
}

}  // namespace

std::vector<Program> gradient_programs() {
  return {unused_parameter(),  detached_loss(),           frozen_parameter(),       loss_of_many(),
          too_few_gradients(), gradient_of_other_shape(), gradient_of_other_dtype()};
}

}  // namespace monograph::zoo
