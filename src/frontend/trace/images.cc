#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::trace {

Tensor conv2d(Argument x, Argument weight, int64_t stride, int64_t padding) {
  const Caller caller("conv2d", {x, weight});
  return emit("conv2d", {x, weight},
              {{"stride", Axes{stride, stride}}, {"padding", Axes{padding, padding}}});
}

Tensor max_pool2d(Argument x, int64_t kernel, int64_t stride, int64_t padding) {
  const Caller caller("max_pool2d", {x});
  return emit("max_pool2d", {x},
              {{"kernel", Axes{kernel, kernel}},
               {"stride", Axes{stride, stride}},
               {"padding", Axes{padding, padding}}});
}

Tensor global_avg_pool2d(Argument x) {
  const Caller caller("global_avg_pool2d", {x});
  return mean(caller.read(x), {1, 2});
}

}  // namespace monograph::trace
