#include "device/cuda/stream.h"

#include <utility>

namespace monograph::device::cuda {

Event::Event(ContextPtr context, bool has_time) : context_(std::move(context)) {
  const unsigned flags = has_time ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  context_->check(context_->api().cuEventCreate(&event_, flags), "cuEventCreate");
}

Event::~Event() {
  if (event_ != nullptr) context_->api().cuEventDestroy(event_);
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(event_, other.event_);
  return *this;
}

void Event::synchronize() const {
  context_->check(context_->api().cuEventSynchronize(event_), "cuEventSynchronize");
}

double Event::ms_since(const Event& start) const {
  float ms = 0;
  context_->check(context_->api().cuEventElapsedTime(&ms, start.event_, event_),
                  "cuEventElapsedTime");
  return ms;
}

Stream::Stream(ContextPtr context, Priority priority) : context_(std::move(context)) {
  constexpr int kHighest = -100;  // lower is earlier; the driver takes the nearest that it has
  context_->check(context_->api().cuStreamCreateWithPriority(
                      &stream_, CU_STREAM_NON_BLOCKING, priority == Priority::kHigh ? kHighest : 0),
                  "cuStreamCreateWithPriority");
}

Stream::~Stream() {
  if (stream_ != nullptr) context_->api().cuStreamDestroy(stream_);
}

void Stream::record(const Event& event) const {
  context_->check(context_->api().cuEventRecord(event.handle(), stream_), "cuEventRecord");
}

void Stream::wait(const Event& event) const {
  context_->check(context_->api().cuStreamWaitEvent(stream_, event.handle(), 0),
                  "cuStreamWaitEvent");
}

void Stream::synchronize() const {
  context_->check(context_->api().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

void Stream::copy_to_device(CUdeviceptr to, const void* from, int64_t num_bytes) const {
  if (num_bytes == 0) return;
  context_->check(context_->api().cuMemcpyHtoDAsync(to, from, num_bytes, stream_),
                  "cuMemcpyHtoDAsync");
}

void Stream::copy_to_host(void* to, CUdeviceptr from, int64_t num_bytes) const {
  if (num_bytes == 0) return;
  context_->check(context_->api().cuMemcpyDtoHAsync(to, from, num_bytes, stream_),
                  "cuMemcpyDtoHAsync");
}

void Stream::copy(CUdeviceptr to, CUdeviceptr from, int64_t num_bytes) const {
  if (num_bytes == 0) return;
  context_->check(context_->api().cuMemcpyDtoDAsync(to, from, num_bytes, stream_),
                  "cuMemcpyDtoDAsync");
}

void Stream::zero(CUdeviceptr to, int64_t num_bytes) const {
  if (num_bytes == 0) return;
  context_->check(context_->api().cuMemsetD8Async(to, 0, num_bytes, stream_), "cuMemsetD8Async");
}

Graph::Graph(const Stream& stream, const std::function<void()>& work) : context_(stream.context()) {
  const Driver& api = context_->api();
  context_->check(api.cuStreamBeginCapture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "cuStreamBeginCapture");
  try {
    work();
  } catch (...) {  // the stream must leave the capture, or nothing runs on it again
    api.cuStreamEndCapture(stream.handle(), &graph_);
    if (graph_ != nullptr) api.cuGraphDestroy(graph_);
    throw;
  }
  context_->check(api.cuStreamEndCapture(stream.handle(), &graph_), "cuStreamEndCapture");
  size_t num_nodes = 0;
  context_->check(api.cuGraphGetNodes(graph_, nullptr, &num_nodes), "cuGraphGetNodes");
  num_nodes_ = static_cast<int64_t>(num_nodes);
  context_->check(api.cuGraphInstantiateWithFlags(&executable_, graph_, 0),
                  "cuGraphInstantiateWithFlags");
}

Graph::~Graph() {
  if (executable_ != nullptr) context_->api().cuGraphExecDestroy(executable_);
  if (graph_ != nullptr) context_->api().cuGraphDestroy(graph_);
}

void Graph::launch(const Stream& stream) const {
  context_->check(context_->api().cuGraphLaunch(executable_, stream.handle()), "cuGraphLaunch");
}

}  // namespace monograph::device::cuda
