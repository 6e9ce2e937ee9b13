#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// What NCCL_DEBUG=INFO logs say, from NCCL 2.4 to 2.30: one record for each process and device, one
// for each communicator.
namespace monograph::diagnose {

struct NcclProcessId {
  std::string host;
  int64_t pid = 0;
  int device = 0;  // local number
  auto operator<=>(const NcclProcessId&) const = default;
};

// Connections of one kind that a process reported.
struct NcclLinks {
  int64_t num_links = 0;
  std::set<int> nics;   // for the network: indices of the NICs used
  int64_t num_gdr = 0;  // of them by GPU Direct RDMA
  std::string example;  // "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/2"
};

struct NcclProcess {
  int rank = -1;                  // in its largest communicator
  int64_t num_ranks = 0;          // of that communicator
  std::string network;            // "IB", "Socket", a plugin's name; empty if not said
  std::vector<std::string> nics;  // as listed: "mlx5_0:1/IB"
  std::string bootstrap;          // interface, "eth0"
  bool no_ib_device = false;      // "NET/IB : No device found."
  std::map<std::string, std::string> gdr_disabled;  // HCA -> the line
  std::set<std::string> gdr_enabled;                // HCA
  std::map<std::string, std::string> environment;   // NCCL_* as NCCL printed it
  std::string version;
  std::map<std::string, NcclLinks> links;  // "P2P", "SHM", "NET" -> what
  int nvls = -1;                           // multicast: 1 available, 0 not, -1 not said
  int64_t num_channels = -1;               // collective channels
};

struct NcclCommunicator {
  std::string id;  // commId, or made up for logs before 2.18
  int64_t num_ranks = 0;
  int64_t num_nodes = -1;                // as NCCL counts them
  std::map<int, NcclProcessId> started;  // rank -> who began to initialise it
  std::map<int, NcclProcessId> completed;
  bool has_start_lines = false;
  std::map<int, std::string> rings;  // channel -> "0 1 2 3", as rank 0 printed it
  std::map<int, std::map<int, int>>
      parents;  // channel -> rank -> its parent in the tree, -1 at the root
  int64_t num_channels = -1;
};

// "[send] via NET/IB/0" on one side and "[receive] via NET/IB/1" on the other are one hop over two
// rails.
struct NcclHop {
  int send_nic = -1;
  int receive_nic = -1;
};

struct NcclWarning {
  std::string message;  // without host, time and numbers that differ
  std::string line;     // the first one
  std::set<NcclProcessId> processes;
  int64_t count = 0;
};

// One collective as a rank enqueued it (NCCL_DEBUG_SUBSYS=COLL).
struct NcclCall {
  uint64_t op_count = 0;
  std::string op;
  int64_t count = -1;
  int datatype = -1;
};

// Those of one communicator on one rank, in order; the oldest are dropped when there are very many.
struct NcclCalls {
  std::vector<NcclCall> calls;
  int64_t num_dropped = 0;
};

struct NcclLog {
  std::map<NcclProcessId, NcclProcess> processes;
  std::map<std::string, NcclCommunicator> communicators;
  std::map<std::string, NcclWarning> warnings;
  std::set<std::string> versions;
  std::map<std::pair<std::string, std::string>, NcclHop> hops;  // (channel, "3->8")
  // Of each process and the communicator's address.
  std::map<NcclProcessId, std::map<std::string, NcclCalls>> calls;
  std::map<std::pair<NcclProcessId, std::string>, std::string> communicator_at;  // address -> id
  bool is_torn_down =
      false;  // some communicator was destroyed or aborted: the log has an orderly end
  int64_t num_lines = 0;

  bool empty() const { return num_lines == 0; }
};

class NcclLogReader {
 public:
  NcclLogReader();
  ~NcclLogReader();

  // Any line of a text log, also with several NCCL lines torn into one.
  void read(std::string_view line);
  NcclLog finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

void merge_nccl_logs(NcclLog& whole, NcclLog&& part);

}  // namespace monograph::diagnose
