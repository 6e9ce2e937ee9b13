#include "frontend/trace/host_read.h"
#include "program.h"

namespace monograph::zoo {
namespace {

template <typename Function>
std::function<Findings()> on_rows(Function function, session::CompileOptions options = {}) {
  options.backend = "interpret";
  return [=] {
    return examine(session::traced_function(function),
                   {.options = options, .calls = {{numbers({4, 3})}}});
  };
}

Program number_read() {
  return {"a loss that is read while it is traced",
          on_rows([](const Tensor& x) {
            return x * sum(x).item();  // fault: number_read
          }),
          line_of(__FILE__, "number_read"),
          {"item() reads the value of f32[]", "keep it a tensor"}};
}

Program branch() {
  return {"a branch on a value",
          on_rows([](const Tensor& x) {
            if (sum(x).is_true()) return sum(x);  // fault: branch
            return sum(x * 2.0);
          }),
          line_of(__FILE__, "branch"),
          {"is_true() branches on the value of f32[]", "cond(condition, then, otherwise"}};
}

Program printed() {
  return {"a printed tensor",
          on_rows([](const Tensor& x) {
            trace::print("x", x);  // fault: printed
            return sum(x);
          }),
          line_of(__FILE__, "printed"),
          {"print() shows the elements of f32[4,3]", "return the tensor as an output"}};
}

Program host_function() {
  const auto function = [](std::span<const ir::Literal> in) {
    return std::vector<ir::Literal>{in[0]};
  };
  return {"a function on the host",
          on_rows([=](const Tensor& x) {
            return sum(trace::host_call(function, {x}, {x.type()})[0]);  // fault: host_function
          }),
          line_of(__FILE__, "host_function"),
          {"host_call() runs a function on the host", "write it with ops"}};
}

Program number_that_changes() {
  const auto function = [](const Tensor& x) {
    return sum(x) * amax(x).item();  // fault: number_that_changes
  };
  return {"a number that differs at each step, past the limit",
          [=] {
            std::vector<std::vector<ir::Literal>> calls;
            for (double top : {1.0, 2.0, 3.0, 4.0}) {
              ir::Literal x = numbers({4, 3});
              x.set(0, top);
              calls.push_back({x});
            }
            return examine(
                session::traced_function(function),
                {.options = {.backend = "interpret", .recompile_limit = 2}, .calls = calls});
          },
          line_of(__FILE__, "number_that_changes"),
          {"item() reads the value", "a scalar tensor broadcasts wherever a number may stand"}};
}

Program fullgraph() {
  return {"a break where none is allowed",
          on_rows(
              [](const Tensor& x) {
                return x + amax(x).item();  // fault: fullgraph
              },
              {.fullgraph = true}),
          line_of(__FILE__, "fullgraph"),
          {"graph break: item() reads", "keep it a tensor"}};
}

Program unregistered_op() {
  return {"an op outside the registry",
          on_rows([](const Tensor& x) {
            return trace::emit("softplus", {x});  // fault: unregistered_op
          }),
          line_of(__FILE__, "unregistered_op"),
          {"unknown op 'softplus'", "CompileOptions::host_ops"}};
}

Program op_on_the_host() {
  session::CompileOptions options;
  options.host_ops["softplus"] = {
      [](std::span<const ir::TensorType> types) {
        return std::vector<ir::TensorType>(types.begin(), types.end());
      },
      [](std::span<const ir::Literal> in) { return std::vector<ir::Literal>{in[0]}; }};
  return {"an op that the host does",
          on_rows(
              [](const Tensor& x) {
                return sum(trace::emit("softplus", {x}));  // fault: op_on_the_host
              },
              options),
          line_of(__FILE__, "op_on_the_host"),
          {"op 'softplus' is not registered and runs on the host", "write it with ops"}};
}

}  // namespace

std::vector<Program> break_programs() {
  return {number_read(),         branch(),    printed(),         host_function(),
          number_that_changes(), fullgraph(), unregistered_op(), op_on_the_host()};
}

}  // namespace monograph::zoo
