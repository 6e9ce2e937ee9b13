#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "diagnose/hang/progress.h"
#include "diagnose/line_scan.h"
#include "diagnose/nccl/nccl_checker.h"

namespace monograph::diagnose {
namespace {

class TransportChecks : NcclChecker {
 public:
  using NcclChecker::NcclChecker;

  void run() {
    check_network();
    check_nics_listed();
    check_gdr();
    check_nic_use();
    check_rails();
    check_local_transport();
    check_nvls();
  }

 private:
  void check_network() {
    auto groups = group_by([](const NcclProcess& process) { return process.network; });
    if (groups.size() > 1) {
      // Falling back to sockets is the fault, however many do.
      auto sockets = groups.find("Socket");
      bool socket = sockets != groups.end();
      const auto& [odd, members] = socket ? *sockets : smallest(groups);
      Finding& finding = add(
          "nccl_network_differs", Severity::kError,
          fmt::format("{} use network {}, the others do not", who(members), odd),
          socket ? cause_of_socket(members)
                 : "the net plugin or device is found on some hosts only",
          fmt::format(
              "make all hosts alike: {}set NCCL_NET={} to fail at start instead of falling back",
              socket ? "check ibv_devinfo and the net plugin there, unset NCCL_IB_DISABLE; " : "",
              largest_name(groups)));
      finding.where.ranks = ranks_of(members);
      finding.evidence = sides(groups);
      return;
    }
    if (groups.size() == 1 && groups.begin()->first == "Socket" && is_multi_host_) {
      const Members& members = groups.begin()->second;
      Finding& finding =
          add("nccl_sockets_between_hosts", Severity::kWarning,
              "all traffic between hosts goes over TCP sockets", cause_of_socket(members),
              "if there is InfiniBand or RoCE: install the verbs libraries in the image, give the "
              "container /dev/infiniband, set NCCL_IB_HCA; on a cloud install its net plugin");
      finding.evidence = {fmt::format("Using network Socket: {}", who(members))};
    }
  }

  std::string cause_of_socket(const Members& members) const {
    for (const NcclProcessId* id : members) {
      const NcclProcess& process = log_.processes.at(*id);
      auto disabled = process.environment.find("NCCL_IB_DISABLE");
      if (disabled != process.environment.end() && disabled->second != "0")
        return "NCCL_IB_DISABLE is set there";
      if (process.no_ib_device)
        return "NCCL found no InfiniBand or RoCE device there (NET/IB : No device found)";
    }
    return "NCCL fell back to sockets";
  }

  // A NIC that is down or missing on a host makes all hosts as slow as that one.
  void check_nics_listed() {
    auto groups = group_by([](const NcclProcess& process) {
      return process.nics.empty() ? std::string() : fmt::format("{}", process.nics.size());
    });
    if (groups.size() < 2) return;
    auto fewest = std::min_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return leading_digits(a.first) < leading_digits(b.first);
    });
    const auto& [count, members] = *fewest;
    Finding& finding =
        add("nccl_nics_differ", Severity::kWarning,
            fmt::format("{} list {} NICs, others more", who(members), count),
            "a NIC is down, absent or hidden there, and rings go as fast as their slowest host",
            "look at ibstat and ibv_devinfo there (links down?), the container's devices, and "
            "NCCL_IB_HCA");
    finding.where.ranks = ranks_of(members);
    for (const auto& [number, those] : groups) {
      const auto& nics = log_.processes.at(*those.front()).nics;
      finding.evidence.push_back(
          fmt::format("{}: {} ({})", number, who(those), fmt::join(nics, " ")));
    }
  }

  // Direct access of the NIC to GPU memory.
  void check_gdr() {
    Members disabled;
    Members with;
    Members without;
    for (const auto& [id, process] : log_.processes) {
      if (!process.gdr_disabled.empty()) disabled.push_back(&id);
      auto net = process.links.find("NET");
      if (net == process.links.end() || process.network == "Socket") continue;
      (net->second.num_gdr > 0 ? with : without).push_back(&id);
    }
    const Members& affected =
        !disabled.empty() && disabled.size() < log_.processes.size() ? disabled : without;
    if (affected.empty() && disabled.empty()) return;
    if (with.empty() && without.empty() && !is_multi_host_) return;  // no traffic between hosts
    const Members& named = affected.empty() ? disabled : affected;
    bool some =
        named.size() < log_.processes.size() && (!with.empty() || named.size() == disabled.size());
    if (!some && !is_multi_host_) return;
    Finding& finding = add(
        some ? "nccl_gdr_differs" : "nccl_no_gdr", Severity::kWarning,
        some ? fmt::format("GPU Direct RDMA is not used by {}, but by others", who(named))
             : "GPU Direct RDMA is not used: traffic between hosts is copied through host memory",
        gdr_cause(named),
        "load nvidia_peermem (or use a kernel and driver with DMA-BUF) on these hosts and switch "
        "ACS off; then if "
        "NCCL still declines because of the distance, set NCCL_NET_GDR_LEVEL=PHB or SYS");
    finding.where.ranks = some ? ranks_of(named) : std::vector<int>();
    for (const NcclProcessId* id : named) {
      const NcclProcess& process = log_.processes.at(*id);
      if (!process.gdr_disabled.empty()) {
        finding.evidence.push_back(
            fmt::format("{}: {}", id->host, process.gdr_disabled.begin()->second));
      } else if (auto net = process.links.find("NET"); net != process.links.end()) {
        finding.evidence.push_back(fmt::format("{}: {}", id->host, net->second.example));
      }
      if (finding.evidence.size() == 4) break;
    }
  }

  std::string gdr_cause(const Members& members) const {
    for (const NcclProcessId* id : members) {
      const NcclProcess& process = log_.processes.at(*id);
      for (std::string_view name :
           {"NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_IB_GDR_LEVEL"}) {
        auto found = process.environment.find(std::string(name));
        if (found != process.environment.end())
          return fmt::format("{} is set to {}", name, found->second);
      }
      for (const auto& [hca, line] : process.gdr_disabled) {
        if (has(line, "no module")) return "the kernel module for it is not loaded";
      }
      if (!process.gdr_disabled.empty())
        return "the HCA cannot reach GPU memory: no nvidia_peermem and no DMA-BUF";
    }
    return "no channel over the network is marked GDRDMA";
  }

  // Of each host, how many of the listed NICs carry traffic.
  void check_nic_use() {
    struct Host {
      size_t num_listed = 0;
      size_t num_gpus = 0;
      std::set<int> used;
      Members members;
      std::string names;
    };
    std::map<std::string, Host> hosts;
    for (const auto& [id, process] : log_.processes) {
      auto net = process.links.find("NET");
      if (net == process.links.end() || process.nics.empty()) continue;
      Host& host = hosts[id.host];
      host.num_gpus = num_gpus_.at(id.host);
      host.num_listed = std::max(host.num_listed, process.nics.size());
      host.used.insert(net->second.nics.begin(), net->second.nics.end());
      host.members.push_back(&id);
      if (host.names.empty()) host.names = fmt::format("{}", fmt::join(process.nics, " "));
    }
    std::vector<std::string> lines;
    size_t num_listed = 0;
    size_t num_used = 0;
    Members affected;
    for (const auto& [name, host] : hosts) {
      // A host with fewer GPUs than NICs has no use for all of them.
      size_t needed = std::min(host.num_listed, host.num_gpus);
      if (host.used.size() >= needed || host.used.empty()) continue;
      num_listed = host.num_listed;
      num_used = host.used.size();
      affected.insert(affected.end(), host.members.begin(), host.members.end());
      lines.push_back(
          fmt::format("{}: listed {}; used {}", name, host.names, fmt::join(host.used, ", ")));
    }
    if (lines.empty()) return;
    Finding& finding =
        add("nccl_nics_unused", Severity::kWarning,
            fmt::format("{} of {} NICs carry traffic on {} of {} hosts", num_used, num_listed,
                        lines.size(), hosts.size()),
            "the rings that NCCL found pass through some NICs only, so bandwidth between hosts is "
            "a part of what is there",
            "check that the topology inside the container or VM is the machine's "
            "(NCCL_TOPO_DUMP_FILE), give it with "
            "NCCL_TOPO_FILE if not; raise NCCL_MIN_NCHANNELS; name the NICs in NCCL_IB_HCA");
    finding.where.ranks =
        affected.size() < log_.processes.size() ? ranks_of(affected) : std::vector<int>();
    if (lines.size() > 6) lines.resize(6);
    finding.evidence = std::move(lines);
  }

  void check_rails() {
    int64_t crossed = 0;
    int64_t hops = 0;
    std::vector<std::string> lines;
    for (const auto& [key, hop] : log_.hops) {
      if (hop.send_nic < 0 || hop.receive_nic < 0) continue;
      ++hops;
      if (hop.send_nic == hop.receive_nic) continue;
      ++crossed;
      if (lines.size() < 4) {
        lines.push_back(fmt::format("channel {} {}: sent by NIC {}, received by NIC {}", key.first,
                                    key.second, hop.send_nic, hop.receive_nic));
      }
    }
    if (crossed == 0) return;
    Finding& finding = add(
        "nccl_cross_rail", Severity::kWarning,
        fmt::format("{} of {} connections between hosts join NICs of different index", crossed,
                    hops),
        "on a network built in rails such traffic crosses the spine; if NIC names are ordered "
        "differently on some "
        "hosts, every ring does",
        "set NCCL_CROSS_NIC=0 to keep to a rail, and give the NICs in one order on all hosts with "
        "NCCL_IB_HCA==mlx5_0,mlx5_1,...; on a single-switch network this is harmless");
    finding.evidence = std::move(lines);
  }

  // Inside a host: P2P is direct, SHM copies through host memory, the network leaves the host.
  void check_local_transport() {
    Members shared;
    Members direct;
    for (const auto& [id, process] : log_.processes) {
      if (process.links.contains("SHM")) shared.push_back(&id);
      if (process.links.contains("P2P")) direct.push_back(&id);
    }
    if (shared.empty()) return;
    std::string disabled;
    for (const NcclProcessId* id : shared) {
      for (std::string_view name : {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"}) {
        auto found = log_.processes.at(*id).environment.find(std::string(name));
        if (found != log_.processes.at(*id).environment.end())
          disabled = fmt::format("{}={}", name, found->second);
      }
    }
    bool mixed = !direct.empty();
    Finding& finding = add(
        "nccl_shared_memory", disabled.empty() && !mixed ? Severity::kNote : Severity::kWarning,
        mixed ? fmt::format("{} exchange data through host memory, others directly between GPUs",
                            who(shared))
              : "GPUs of one host exchange data through host memory (SHM), not directly",
        !disabled.empty() ? disabled + " is set"
                          : "NCCL saw no direct path between these GPUs: no NVLink, another PCIe "
                            "root, ACS on, or the "
                            "container hides devices",
        !disabled.empty() ? fmt::format("unset {}", before(disabled, "="))
                          : "compare with nvidia-smi topo -m; switch ACS off, share the PID and "
                            "IPC namespaces between "
                            "containers, or set NCCL_P2P_LEVEL=SYS");
    finding.where.ranks = mixed ? ranks_of(shared) : std::vector<int>();
    finding.evidence.push_back(log_.processes.at(*shared.front()).links.at("SHM").example);
  }

  void check_nvls() {
    auto groups = group_by([](const NcclProcess& process) {
      return std::string(process.nvls < 0 ? "" : process.nvls == 1 ? "available" : "not available");
    });
    if (groups.size() < 2) return;
    const Members& members = groups.at("not available");
    Finding& finding =
        add("nccl_nvls_differs", Severity::kWarning,
            fmt::format("NVLink SHARP is not available on {}, but on others", who(members)),
            "the fabric manager or driver differs there; NCCL then uses it nowhere",
            "restart nvidia-fabricmanager on these hosts; NCCL_NVLS_ENABLE=0 makes all alike "
            "meanwhile");
    finding.where.ranks = ranks_of(members);
    finding.evidence = sides(groups);
  }
};

}  // namespace

void check_nccl_transport(const NcclLog& log, std::vector<Finding>& findings) {
  TransportChecks(log, findings).run();
}

}  // namespace monograph::diagnose
