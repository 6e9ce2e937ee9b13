// How long it takes to check the guards of a step of 100 inputs: bench_frontend_guards
// Best of 20 batches of 10,000 checks; the bar is 5 microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "frontend/session/guards.h"

int main() {
  using namespace monograph;
  using Clock = std::chrono::steady_clock;
  constexpr int kInputs = 100, kBatches = 20, kChecks = 10'000;
  std::vector<ir::TensorType> types;
  for (int i = 0; i < kInputs; ++i) types.push_back({ir::DType::kF32, {8, 64 + i, 3}});
  session::CallFacts call;
  for (const ir::TensorType& type : types) call.inputs.push_back({&type});
  const session::Guards guards{session::static_guards(call), {}, {}, 0};
  double best = 1e9;
  int64_t held = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < kChecks; ++i) held += guards.hold(call) ? 1 : 0;
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    best = std::min(best, time.count() / kChecks);
  }
  fmt::print("guards of {} inputs: {:.2f} us a check ({} of {} held)\n", kInputs, best, held,
             kBatches * kChecks);
  return held == int64_t{kBatches} * kChecks && best < 5 ? 0 : 1;
}
