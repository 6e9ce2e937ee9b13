#include "frontend/session/guards.h"
#include "frontend/session/tensor_view.h"
#include "program.h"

namespace monograph::zoo {
namespace {

Findings call_with(const std::vector<ir::Literal>& inputs, session::CompileOptions options = {}) {
  options.backend = "interpret";
  options.input_names = {"rows"};
  std::vector<std::vector<ir::Literal>> calls;
  for (const ir::Literal& input : inputs) calls.push_back({input});
  return examine(session::traced_function([](const Tensor& x) {
                   return (x * x).sum();  // fault: use
                 }),
                 {.options = options, .calls = calls});
}

Program dtype() {
  return {"an input of another dtype",
          [] {
            const ir::Literal wide({ir::DType::kF64, {4, 3}});
            return call_with({numbers({4, 3}), wide});
          },
          line_of(__FILE__, "use"),
          {"input 'rows' dtype: expected f32[4,3], got f64[4,3]", "cast it to f32"}};
}

Program rank() {
  return {"an input of another rank",
          [] {
            return call_with({numbers({4, 3}), numbers({12})});
          },
          line_of(__FILE__, "use"),
          {"input 'rows' rank: expected f32[4,3], got f32[12]", "give it one rank"}};
}

Program short_batch() {
  return {"a short last batch",
          [] {
            return call_with({numbers({4, 3}), numbers({2, 3})});
          },
          line_of(__FILE__, "use"),
          {"input 'rows' dim 0: expected f32[4,3], got f32[2,3]", "dynamic_shapes"}};
}

Program out_of_range() {
  return {"a batch outside its range",
          [] {
            return call_with({numbers({4, 3}), numbers({40, 3})},
                             {.dynamic_shapes = {{"rows", {{"batch", 1, 32}}}}});
          },
          line_of(__FILE__, "use"),
          {"expected batch 1..32, got 40", "declare a wider range"}};
}

Program no_multiple() {
  return {"a batch that does not divide",
          [] {
            return call_with({numbers({4, 3}), numbers({6, 3})},
                             {.dynamic_shapes = {{"rows", {{"batch", 4, 32, 4}}}}});
          },
          line_of(__FILE__, "use"),
          {"expected batch 4..32, a multiple of 4, got 6", "pad it to a multiple of 4"}};
}

Program specialised() {
  const auto function = [](const Tensor& x) {
    Tensor y = x + 1.0;
    if (x.dim(0) > 16) y = y * 2.0;  // fault: specialised
    return sum(y);
  };
  return {"a size that decides what is computed",
          [=] {
            return examine(session::traced_function(function),
                           {.options = {.backend = "interpret",
                                        .input_names = {"rows"},
                                        .dynamic_shapes = {{"rows", {{"batch", 1, 32}}}}},
                            .calls = {{numbers({4, 3})}}});
          },
          line_of(__FILE__, "specialised"),
          {"dim 'batch' is specialised"}};
}

Program training_mode() {
  struct Net : nn::Module {
    nn::Dropout drop{*this, "drop", 0.5};
  };
  const auto net = std::make_shared<Net>();
  const auto function = [net](const Tensor& x) {
    return sum(net->drop(x));  // fault: training_mode
  };
  return {"training mode switched between calls",
          [=] {
            return examine(session::traced_function(function),
                           {.options = {.backend = "interpret"},
                            .calls = {{numbers({4, 3})}, {numbers({4, 3})}},
                            .before_call = [&](size_t i) { net->train(i == 0); }});
          },
          line_of(__FILE__, "training_mode"),
          {"training mode of 'drop': expected true, got false", "one compiled function for each"}};
}

Program layout() {
  return {"an input in another layout",
          [] {
            session::Compiled step = session::compile(
                [](const Tensor& x) {
                  return sum(x * 2.0);  // fault: layout
                },
                {.backend = "interpret", .input_names = {"rows"}});
            const ir::Literal x = numbers({2, 3});
            session::TensorView view{x.type(), x.data(), {1, 2}};
            step(x);
            step.run_on({&view, 1});
            return Findings{session::to_text(step.guard_misses())};
          },
          line_of(__FILE__, "layout"),
          {"input 'rows' layout: expected row-major, got axes (1,0)", "contiguous copy"}};
}

Program unequal_sizes() {
  const auto function = [](const Tensor& x, const Tensor& y) {
    return sum(x) + sum(y);  // fault: unequal_sizes
  };
  return {
      "two sizes of one name that differ",
      [=] {
        return examine(
            session::traced_function(function),
            {.options = {.backend = "interpret",
                         .input_names = {"x", "y"},
                         .dynamic_shapes = {{"x", {{"batch", 1, 32}}}, {"y", {{"batch", 1, 32}}}}},
             .calls = {{numbers({4, 3}), numbers({4, 3})}, {numbers({4, 3}), numbers({5, 3})}}});
      },
      line_of(__FILE__, "unequal_sizes"),
      {"input 'y' dim 0: expected batch = 4, as in an input before, got 5", "give equal sizes"}};
}

Program frozen_between_calls() {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 1};
  };
  const auto net = std::make_shared<Net>();
  const auto function = [net](const Tensor& x) {
    const Tensor loss = sum(net->fc(x));
    loss.backward();  // fault: frozen_between_calls
    return loss;
  };
  return {"parameters frozen between two calls",
          [=] {
            return examine(session::traced_function(function),
                           {.options = {.backend = "interpret"},
                            .calls = {{numbers({4, 3})}, {numbers({4, 3})}},
                            .before_call = [&](size_t i) {
                              if (i == 1) net->freeze();
                            }});
          },
          0,
          {"expected false, got true", "one compiled function for each"}};
}

Program other_mesh() {
  return {
      "a step called on another mesh",
      [] {
        session::Session session;
        session::Compiled step =
            session.compile([](const Tensor& x) { return sum(x); }, {.backend = "interpret"});
        step(numbers({2, 3}));
        auto mesh = std::make_shared<runtime::MeshContext>();
        mesh->mesh = ir::Mesh({{"dp", 1}});
        session.set_mesh(mesh);
        step(numbers({2, 3}));
        return Findings{session::to_text(step.guard_misses())};
      },
      0,
      {"mesh: expected mesh(), got mesh(dp=1)", "call it on the mesh that it was compiled for"}};
}

}  // namespace

std::vector<Program> guard_programs() {
  return {dtype(),       rank(),          short_batch(), out_of_range(),  no_multiple(),
          specialised(), training_mode(), layout(),      unequal_sizes(), frozen_between_calls(),
          other_mesh()};
}

}  // namespace monograph::zoo
