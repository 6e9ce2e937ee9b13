#include "runtime/measure_link.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace monograph::runtime {
namespace {

double median_seconds(comm::Communicator& communicator, float* data, int64_t count, int repeats) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    communicator.all_reduce(data, count, comm::ElementType::kF32, comm::ReduceOp::kSum,
                            "measure the link");
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return seconds[repeats / 2];
}

}  // namespace

ir::LinkModel measure_link(comm::Communicator& communicator) {
  constexpr int64_t kCount = int64_t{1} << 20, kBytes = kCount * 4;
  const std::shared_ptr<void> memory = communicator.allocate(kBytes);
  auto* const data = static_cast<float*>(memory.get());
  ir::LinkModel link;
  link.latency_s = median_seconds(communicator, data, 1, 21);
  const double large = median_seconds(communicator, data, kCount, 7);
  link.bytes_per_s = static_cast<double>(kBytes) / std::max(large - link.latency_s, 1e-9);
  return link;
}

}  // namespace monograph::runtime
