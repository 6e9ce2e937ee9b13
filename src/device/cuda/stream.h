#pragma once

#include <functional>

#include "device/cuda/memory.h"

namespace monograph::device::cuda {

class Event {
 public:
  explicit Event(ContextPtr context, bool has_time = false);
  ~Event();
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept;

  CUevent handle() const { return event_; }
  void synchronize() const;                   // waits until the work before it is done
  double ms_since(const Event& start) const;  // both with time, and done

 private:
  ContextPtr context_;
  CUevent event_ = nullptr;
};

// A queue of work on the GPU. Does not wait for the default stream.
class Stream {
 public:
  enum class Priority : uint8_t { kNormal, kHigh };  // high: its kernels go first
  explicit Stream(ContextPtr context, Priority priority = Priority::kNormal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream handle() const { return stream_; }
  const ContextPtr& context() const { return context_; }

  void record(const Event& event) const;
  void wait(const Event& event) const;  // work given from now on waits for the event
  void synchronize() const;

  // Asynchronous where the host's side is pinned.
  void copy_to_device(CUdeviceptr to, const void* from, int64_t num_bytes) const;
  void copy_to_host(void* to, CUdeviceptr from, int64_t num_bytes) const;
  void copy(CUdeviceptr to, CUdeviceptr from, int64_t num_bytes) const;
  void zero(CUdeviceptr to, int64_t num_bytes) const;

 private:
  ContextPtr context_;
  CUstream stream_ = nullptr;
};

// Work recorded once and launched as a whole.
class Graph {
 public:
  // Records what `work` gives to the stream; nothing of it runs. UserError with the driver's reason
  // when something in it cannot be recorded.
  Graph(const Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const Stream& stream) const;
  int64_t num_nodes() const { return num_nodes_; }

 private:
  ContextPtr context_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
  int64_t num_nodes_ = 0;
};

}  // namespace monograph::device::cuda
