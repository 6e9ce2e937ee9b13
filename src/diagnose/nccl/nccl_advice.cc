#include "diagnose/nccl/nccl_advice.h"

#include <array>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

struct Known {
  std::string_view part;  // of the message
  std::string_view why;
  std::string_view advice;
  bool is_fatal = true;
};

// The first that matches stands, so the narrower come first.
constexpr std::array<Known, 22> kKnown{{
    {"Cuda failure 'out of memory'", "the GPU has no memory left for NCCL's buffers",
     "leave some hundred MB free, or lower NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS"},
    {"peer mapping resources exhausted", "more peers than the GPU can map",
     "lower the number of communicators, or set NCCL_P2P_DISABLE=1 for this job"},
    {"Error while creating shared memory", "/dev/shm is too small",
     "start the container with --shm-size=1g (or --ipc=host), or mount a larger /dev/shm"},
    {"shared memory segment", "/dev/shm is too small or not shared",
     "start the container with --shm-size=1g (or --ipc=host)"},
    {"Message truncated",
     "two ranks posted different sizes for the same exchange: another collective, another shape, "
     "or "
     "two jobs on one port",
     "make the ranks call the same collectives with the same sizes; look for the mismatch with "
     "TORCH_DISTRIBUTED_DEBUG=DETAIL"},
    {"status=12",
     "the InfiniBand retry limit was exceeded: the peer died, or the link or switch drops packets",
     "look first at whether the peer rank died; then at link errors (perfquery, ethtool -S); raise "
     "NCCL_IB_TIMEOUT=22 and "
     "NCCL_IB_RETRY_CNT=7; on RoCE check PFC and NCCL_IB_GID_INDEX"},
    {"Got completion", "an InfiniBand operation failed: the peer died or the link is bad",
     "look at whether the peer rank died; check the link, and NCCL_IB_GID_INDEX on RoCE"},
    {"ibv_modify_qp failed",
     "the queue pair could not be connected: a wrong GID on RoCE, or the NIC is not routed to the "
     "peer",
     "set NCCL_IB_GID_INDEX to the RoCE v2 entry of show_gids, and NCCL_IB_HCA to the NICs of one "
     "fabric"},
    {"ibv_reg_mr", "memory could not be pinned for the NIC",
     "set ulimit -l unlimited for the job (LimitMEMLOCK in the daemon)"},
    {"ibv_create_", "the NIC refused a resource",
     "set ulimit -l unlimited; check that the container may use /dev/infiniband"},
    {"Failed to open libibverbs", "the verbs library is not in the image",
     "install rdma-core (libibverbs1, ibverbs-providers)", false},
    {"Connection refused",
     "the peer does not listen any more: it died, or the address is of an interface that is not "
     "reachable",
     "look at the log of the peer; set NCCL_SOCKET_IFNAME to the interface that all hosts share"},
    {"No route to host", "the interface that NCCL chose does not reach the peer",
     "set NCCL_SOCKET_IFNAME to the interface that all hosts share; open the firewall between the "
     "hosts"},
    {"Connection timed out", "the peer could not be reached",
     "set NCCL_SOCKET_IFNAME to the interface that all hosts share; open the firewall between the "
     "hosts"},
    {"Connection reset by peer", "the peer closed: it most likely failed first",
     "look for the first error among the other ranks"},
    {"Connection closed by remote peer", "the peer closed: it most likely failed first",
     "look for the first error among the other ranks"},
    {"No socket interface found", "NCCL_SOCKET_IFNAME matches no interface",
     "correct NCCL_SOCKET_IFNAME; ip addr lists the names"},
    {"no interface found", "NCCL_SOCKET_IFNAME matches no interface",
     "correct NCCL_SOCKET_IFNAME; ip addr lists the names"},
    {"Mismatched version", "the ranks load different NCCL versions", "use one image on all hosts"},
    {"Duplicate GPU detected", "two ranks use the same GPU",
     "set the device of each rank by its local rank (torch.cuda.set_device(LOCAL_RANK)), one GPU "
     "each"},
    {"Cuda failure", "a CUDA call failed, often an error of an earlier kernel",
     "run with CUDA_LAUNCH_BLOCKING=1 to find the kernel; look for Xid errors in dmesg"},
    {"Missing \"iommu=pt\"", "the IOMMU translates every transfer", "boot with iommu=pt", false},
}};

}  // namespace

NcclAdvice advise_on_warning(std::string_view message) {
  for (const Known& known : kKnown) {
    if (has(message, known.part))
      return {std::string(known.why), std::string(known.advice), known.is_fatal};
  }
  return {"NCCL itself says so",
          "read the source line that the warning names, and the first warning of the other ranks",
          false};
}

}  // namespace monograph::diagnose
