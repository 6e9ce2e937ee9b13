#include "frontend/trace/custom_gradient.h"

#include "base/error.h"
#include "frontend/trace/trace.h"
#include "passes/autodiff/autodiff.h"

namespace monograph::trace {
namespace {

using Tensors = CustomGradient::Tensors;

std::string place_text(const Location& where) {
  return fmt::format("\n  called at {}:{}", where.file_name(), where.line());
}

// "input 1 (parameter 'fc.weight', f32[3,4])"
std::string input_text(size_t number, ir::Value input) {
  const std::string type = input.type().str();
  if (!input.node->is_placeholder()) return fmt::format("input {} ({})", number, type);
  return fmt::format("input {} ({} '{}', {})", number, input.node->is("state") ? "state" : "input",
                     input.node->name(), type);
}

void check_gradients(const CustomGradient& function, const Tensors& gradients,
                     const std::vector<ir::Value>& inputs, const Location& where) {
  if (gradients.size() < inputs.size()) {
    throw_user_error(
        "[{}] backward returned {} gradients for {} inputs: none for {}: return one for "
        "each input, an empty Tensor where none flows{}",
        function.name, gradients.size(), inputs.size(),
        input_text(gradients.size(), inputs[gradients.size()]), place_text(where));
  }
  if (gradients.size() > inputs.size()) {
    throw_user_error(
        "[{}] backward returned {} gradients for {} inputs, the last of which is {}: "
        "return one for each input{}",
        function.name, gradients.size(), inputs.size(),
        input_text(inputs.size() - 1, inputs.back()), place_text(where));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradients[i] || gradients[i].type() == inputs[i].type()) continue;
    const bool is_dtype = gradients[i].dtype() != inputs[i].dtype();
    throw_user_error("[{}] backward returned {} as the gradient of {}: {}{}", function.name,
                     gradients[i].type().str(), input_text(i, inputs[i]),
                     is_dtype
                         ? fmt::format("cast it with to({})", ir::dtype_name(inputs[i].dtype()))
                         : "give it the input's shape, e.g. by sum() over what was broadcast",
                     place_text(where));
  }
}

// What autodiff calls when it comes to the outputs.
class Backward {
 public:
  Backward(CustomGradient function, std::weak_ptr<Trace> trace, Tensors inputs, Tensors outputs,
           const Location& where)
      : function_(std::move(function)), trace_(std::move(trace)), where_(where) {
    for (const Tensor& each : inputs) inputs_.push_back(each.value());
    for (const Tensor& each : outputs) outputs_.push_back(each.value());
  }

  std::vector<ir::Value> operator()(std::span<const ir::Value> cotangents) const {
    const std::shared_ptr<Trace> trace = trace_.lock();
    const auto tensors = [&](std::span<const ir::Value> values) {
      Tensors result;
      for (const ir::Value value : values) result.emplace_back(trace, value);
      return result;
    };
    const PhaseScope phase(*trace, ir::Phase::kBackward);
    const Tensors gradients =
        function_.backward(tensors(inputs_), tensors(outputs_), tensors(cotangents));
    check_gradients(function_, gradients, inputs_, where_);
    std::vector<ir::Value> values;
    for (const Tensor& each : gradients) values.push_back(each ? each.value() : ir::Value());
    return values;
  }

 private:
  CustomGradient function_;
  std::weak_ptr<Trace> trace_;  // which keeps this
  std::vector<ir::Value> inputs_, outputs_;
  Location where_;
};

}  // namespace

Tensors CustomGradient::operator()(const std::vector<TensorArgument>& arguments,
                                   Location where) const {
  Trace& trace = trace_of(name, arguments);
  Tensors inputs, hidden;
  for (const TensorArgument& argument : arguments) {
    if (argument.number() != nullptr) {
      throw_user_error("[{}] input {} is a number: give a tensor{}", name, inputs.size(),
                       place_text(where));
    }
    inputs.push_back(argument.state() ? trace.read(*argument.state()) : *argument.tensor());
    hidden.push_back(inputs.back().detach(where));
  }
  const Tensors made = forward(hidden);
  if (made.empty()) throw_user_error("[{}] forward returned no tensor{}", name, place_text(where));
  Tensors outputs;
  for (const Tensor& each : made) outputs.push_back(each.detach(where));
  passes::CustomGradient custom;
  for (const Tensor& each : inputs) custom.inputs.push_back(each.value());
  for (const Tensor& each : outputs) custom.outputs.push_back(each.value());
  custom.gradient = Backward(*this, trace.weak_from_this(), inputs, outputs, where);
  trace.add_custom_gradient(std::move(custom));
  return outputs;
}

}  // namespace monograph::trace
