#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/world.h"
#include "device/cuda/stream.h"

namespace monograph::comm {

// One group of ranks, a GPU each. Collectives are queued on a stream and run there; the host waits
// for none of them. Every rank of the group queues the same ones in the same order.
class GpuGroup {
 public:
  virtual ~GpuGroup() = default;
  virtual int size() const = 0;
  // all_reduce, broadcast, all_gather or reduce_scatter, with buffers as Communicator has them.
  // Counts are in elements; the call's sequence is not read. May be recorded into a graph.
  // CommError when it cannot be queued.
  virtual void enqueue(const Call& call, CUdeviceptr from, CUdeviceptr to,
                       const device::cuda::Stream& stream) = 0;
  // Says what the GPU does next, before it is given the work: once for each time that it is,
  // queued call by call or as a graph. By this the sequence numbers that the GPU counts get names.
  virtual void expect(std::shared_ptr<const std::vector<Call>> calls) = 0;
};

// The groups of one rank's GPU. A thread watches them: a rank that is gone, an error of the network
// or a collective that outlasts the timeout ends what runs on the GPU, so that whoever waits for
// the GPU goes on, and check() says what happened. Graphs with collectives must be gone before it.
class GpuWorld {
 public:
  virtual ~GpuWorld() = default;
  // As World::split. The group lives as long as this.
  virtual GpuGroup& split(std::span<const int> ranks, std::string_view name) = 0;
  // CommError once something failed: names the ranks at fault, the collective and its number. To be
  // asked after each wait for the GPU: what it computed is then of no use.
  virtual void check() const = 0;
};

// Over NCCL. Every rank of the world calls it. UserError when there is no NCCL, or two ranks have
// one GPU. The world must outlive it.
std::unique_ptr<GpuWorld> make_nccl_world(World& world, device::cuda::ContextPtr context);

}  // namespace monograph::comm
