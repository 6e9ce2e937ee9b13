#include "base/error.h"
#include "frontend/session/tensor_view.h"
#include "program.h"

namespace monograph::zoo {
namespace {

Findings run_on(const std::vector<session::TensorView>& views) {
  session::Compiled step =
      session::compile([](const Tensor& x, const Tensor& y) { return sum(x * y); },
                       {.backend = "interpret", .input_names = {"images", "labels"}});
  try {
    step.run_on(views);
  } catch (const UserError& error) {
    return {error.what()};
  }
  return {};
}

Program other_device() {
  return {"an input on a GPU that the step does not run on",
          [] {
            const ir::Literal x = numbers({2});
            return run_on({{x.type(), x.data()}, {x.type(), x.data(), {}, "cuda:0"}});
          },
          0,
          {"labels", "cuda:0", "copy it to host memory before the call"}};
}

Program bad_strides() {
  return {"a view whose strides are of another rank",
          [] {
            const ir::Literal x = numbers({2, 2});
            return run_on({{x.type(), x.data(), {1}}, {x.type(), x.data()}});
          },
          0,
          {"input 'images' is f32[2,2] with 1 strides", "give one stride an axis"}};
}

}  // namespace

std::vector<Program> placement_programs() {
  return {other_device(), bad_strides()};
}

}  // namespace monograph::zoo
