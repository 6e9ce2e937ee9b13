#include "diagnose/nccl/nccl_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "diagnose/hang/line_scan.h"
#include "diagnose/nccl/nccl_advice.h"

namespace monograph::diagnose {
namespace {

using Members = std::vector<const NcclProcessId*>;

class Checker {
 public:
  explicit Checker(const NcclLog& log) : log_(log) {
    for (const auto& [id, process] : log_.processes) {
      hosts_.insert(id.host);
      ++num_gpus_[id.host];
    }
    for (const auto& [id, communicator] : log_.communicators) {
      if (communicator.num_nodes > 1) is_multi_host_ = true;
    }
    if (hosts_.size() > 1) is_multi_host_ = true;
  }

  std::vector<Finding> run() {
    check_versions();
    check_network();
    check_gdr();
    check_nic_use();
    check_rails();
    check_local_transport();
    check_nvls();
    check_environment();
    check_asked();
    check_start();
    check_hosts();
    check_rings();
    check_warnings();
    return std::move(findings_);
  }

 private:
  Finding& add(std::string_view code, Severity severity, std::string what, std::string why,
               std::string advice) {
    Finding finding;
    finding.code = code;
    finding.severity = severity;
    finding.what = std::move(what);
    finding.why = std::move(why);
    finding.advice = std::move(advice);
    finding.weight =
        100 - static_cast<double>(findings_.size());  // the checks run in order of gravity
    findings_.push_back(std::move(finding));
    return findings_.back();
  }

  std::vector<int> ranks_of(const Members& members) const {
    std::vector<int> ranks;
    for (const NcclProcessId* id : members) {
      int rank = log_.processes.at(*id).rank;
      if (rank >= 0) ranks.push_back(rank);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  // "ranks 0-7 (host node1)", or hosts alone where ranks are not known.
  std::string who(const Members& members) const {
    std::set<std::string> hosts;
    for (const NcclProcessId* id : members) hosts.insert(id->host);
    std::string where = hosts.size() <= 3
                            ? fmt::format("{}", fmt::join(hosts, ", "))
                            : fmt::format("{} hosts, {} the first", hosts.size(), *hosts.begin());
    std::vector<int> ranks = ranks_of(members);
    if (ranks.empty()) return (hosts.size() == 1 ? "host " : "hosts ") + where;
    return fmt::format("rank{} {} ({})", ranks.size() == 1 ? "" : "s", rank_list(ranks), where);
  }

  // The processes by what `value` says of them; those it says nothing of are left out.
  template <typename Value>
  std::map<std::string, Members> group_by(Value value) const {
    std::map<std::string, Members> groups;
    for (const auto& [id, process] : log_.processes) {
      std::string key = value(process);
      if (!key.empty()) groups[key].push_back(&id);
    }
    return groups;
  }

  static const std::pair<const std::string, Members>& smallest(
      const std::map<std::string, Members>& groups) {
    return *std::min_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
  }

  std::vector<std::string> sides(const std::map<std::string, Members>& groups) const {
    std::vector<std::string> lines;
    for (const auto& [value, members] : groups)
      lines.push_back(fmt::format("{}: {}", value, who(members)));
    return lines;
  }

  void check_versions() {
    auto groups = group_by([](const NcclProcess& process) { return process.version; });
    if (groups.size() < 2 && log_.versions.size() < 2) return;
    Finding& finding = add(
        "nccl_version_differs", Severity::kError,
        fmt::format("NCCL {} run in one job", fmt::join(log_.versions, " and ")),
        "the ranks load different libraries: initialisation fails or hangs, or collectives differ",
        "use one image or one LD_LIBRARY_PATH on all hosts; NCCL_DEBUG=VERSION prints what is "
        "loaded");
    finding.evidence = sides(groups);
    if (groups.size() > 1) finding.where.ranks = ranks_of(smallest(groups).second);
  }

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

  static std::string largest_name(const std::map<std::string, Members>& groups) {
    return std::max_element(
               groups.begin(), groups.end(),
               [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); })
        ->first;
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

  void check_environment() {
    std::set<std::string> names;
    for (const auto& [id, process] : log_.processes) {
      for (const auto& [name, value] : process.environment) names.insert(name);
    }
    for (const std::string& name : names) {
      if (may_differ(name)) continue;
      std::map<std::string, Members> groups;
      for (const auto& [id, process] : log_.processes) {
        // A process that said nothing at all was cut off or logs less.
        if (process.environment.empty() && process.network.empty()) continue;
        auto found = process.environment.find(name);
        groups[found == process.environment.end() ? "not set" : found->second].push_back(&id);
      }
      if (groups.size() < 2) continue;
      const auto& [odd, members] = smallest(groups);
      Finding& finding = add(
          "nccl_environment_differs", Severity::kWarning,
          fmt::format("{} differs between ranks: {} on {}", name, odd, who(members)),
          "the launcher or a shell profile gives hosts different environments",
          fmt::format("export {} to all ranks alike ({} elsewhere)", name, largest_name(groups)));
      finding.where.ranks = ranks_of(members);
      finding.evidence = sides(groups);
    }
  }

  static bool may_differ(const std::string& name) {
    static constexpr std::array<std::string_view, 4> kOwn{"NCCL_DEBUG_FILE", "NCCL_HOSTID",
                                                          "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"};
    return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
  }

  // What a variable asked for against what NCCL did.
  void check_asked() {
    std::map<std::string, Members> refused;
    for (const auto& [id, process] : log_.processes) {
      std::string refusal = refusal_of(process);
      if (!refusal.empty()) refused[refusal].push_back(&id);
    }
    for (const auto& [refusal, members] : refused) {
      Finding& finding = add("nccl_not_as_asked", Severity::kWarning,
                             fmt::format("{} on {}", refusal, who(members)),
                             "what the variable names is not there, or cannot be used",
                             "correct the variable, or install what it names on these hosts");
      finding.where.ranks =
          members.size() < log_.processes.size() ? ranks_of(members) : std::vector<int>();
    }
  }

  static std::string refusal_of(const NcclProcess& process) {
    auto value = [&](std::string_view name) {
      auto found = process.environment.find(std::string(name));
      return found == process.environment.end() ? std::string() : found->second;
    };
    std::string net = value("NCCL_NET");
    if (!net.empty() && !process.network.empty() && net != process.network) {
      return fmt::format("NCCL_NET asks for {}, NCCL uses {}", net, process.network);
    }
    std::string hca = value("NCCL_IB_HCA");
    if (!hca.empty() && process.network == "Socket") {
      return fmt::format("NCCL_IB_HCA={} asks for InfiniBand or RoCE, NCCL uses sockets", hca);
    }
    std::string interface = value("NCCL_SOCKET_IFNAME");
    if (!interface.empty() && interface[0] != '^' && !process.bootstrap.empty()) {
      bool exact = interface[0] == '=';
      bool met = false;
      for (std::string_view rest = std::string_view(interface).substr(exact ? 1 : 0);
           !rest.empty();) {
        std::string_view one = before(rest, ",");
        met = met || (exact ? process.bootstrap == one : process.bootstrap.starts_with(one));
        rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      }
      if (!met) {
        return fmt::format("NCCL_SOCKET_IFNAME asks for {}, NCCL uses {}", interface,
                           process.bootstrap);
      }
    }
    return {};
  }

  // Ranks that began to initialise a communicator and did not finish, where others wait or
  // finished.
  void check_start() {
    for (const auto& [id, communicator] : log_.communicators) {
      if (!communicator.has_start_lines || log_.is_torn_down) continue;
      std::vector<int> unfinished;
      std::vector<int> absent;
      for (const auto& [rank, process] : communicator.started) {
        if (!communicator.completed.contains(rank)) unfinished.push_back(rank);
      }
      if (unfinished.empty()) continue;
      for (int rank = 0; rank < communicator.num_ranks; ++rank) {
        if (!communicator.started.contains(rank)) absent.push_back(rank);
      }
      const std::vector<int>& blamed = absent.empty() ? unfinished : absent;
      Finding& finding = add(
          "nccl_init_incomplete", Severity::kError,
          fmt::format("communicator {} of {} ranks was never complete: {} of them began, {} "
                      "finished; rank{} {} {}",
                      id, communicator.num_ranks, communicator.started.size(),
                      communicator.completed.size(), blamed.size() == 1 ? "" : "s",
                      rank_list(blamed), absent.empty() ? "did not finish" : "never began"),
          absent.empty() ? "ranks cannot reach each other, or one failed in between"
                         : "the others wait for these ranks in the initialisation",
          absent.empty()
              ? "look for NCCL WARN lines of these ranks; check NCCL_SOCKET_IFNAME and firewalls"
              : "look at the logs of these ranks: they died before, or use another communicator "
                "id");
      finding.where.ranks = blamed;
    }
  }

  void check_hosts() {
    for (const auto& [id, communicator] : log_.communicators) {
      std::set<std::string> hosts;
      for (const auto& [rank, process] : communicator.completed) hosts.insert(process.host);
      bool whole = static_cast<int64_t>(communicator.completed.size()) == communicator.num_ranks;
      if (!whole || communicator.num_nodes < 0 ||
          static_cast<int64_t>(hosts.size()) == communicator.num_nodes)
        continue;
      Finding& finding = add(
          "nccl_host_count", Severity::kNote,
          fmt::format("NCCL counts {} hosts in communicator {}, the log shows {} host names",
                      communicator.num_nodes, id, hosts.size()),
          static_cast<int64_t>(hosts.size()) < communicator.num_nodes
              ? "containers share a host name, or ranks of one machine have different host ids, so "
                "that they talk "
                "over the network"
              : "NCCL joined hosts into one (MNNVL), or host ids are equal on different machines",
          "if ranks of one machine use the network: give the containers one host name and share "
          "/proc/sys/kernel/random/boot_id, "
          "or set NCCL_HOSTID");
      finding.evidence = {fmt::format("hosts: {}", fmt::join(hosts, ", "))};
    }
  }

  // Each ring visits every rank once.
  void check_rings() {
    for (const auto& [id, communicator] : log_.communicators) {
      for (const auto& [channel, order] : communicator.rings) {
        if (order.find("...") != std::string::npos) continue;  // NCCL cuts the line
        std::set<int64_t> seen;
        int64_t count = 0;
        for (std::string_view rest = order; !rest.empty(); ++count) {
          std::string_view one = before(rest, " ");
          seen.insert(leading_integer(one).value_or(-1));
          rest.remove_prefix(std::min(rest.size(), one.size() + 1));
        }
        if (count != communicator.num_ranks || static_cast<int64_t>(seen.size()) == count) continue;
        Finding& finding = add(
            "nccl_ring_broken", Severity::kError,
            fmt::format("ring {} of communicator {} does not visit every rank once", channel, id),
            "the topology that NCCL searched is inconsistent",
            "report it with NCCL_TOPO_DUMP_FILE");
        finding.evidence = {order};
      }
    }
  }

  void check_warnings() {
    for (const auto& [gist, warning] : log_.warnings) {
      NcclAdvice advice = advise_on_warning(warning.message);
      Members members;
      for (const NcclProcessId& id : warning.processes) {
        if (auto found = log_.processes.find(id); found != log_.processes.end())
          members.push_back(&found->first);
      }
      Finding& finding =
          add("nccl_warning", advice.is_fatal ? Severity::kError : Severity::kWarning,
              fmt::format("NCCL warns on {}: {}", who(members), warning.message), advice.why,
              advice.advice);
      finding.where.ranks = ranks_of(members);
      finding.count = warning.count;
      finding.evidence = {warning.line};
    }
  }

  const NcclLog& log_;
  std::set<std::string> hosts_;
  std::map<std::string, size_t> num_gpus_;  // of each host, as far as the log shows
  bool is_multi_host_ = false;
  std::vector<Finding> findings_;
};

std::string_view datatype_name(int code) {
  static constexpr std::array<std::string_view, 12> kNames{
      "int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
      "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return code >= 0 && code < static_cast<int>(kNames.size()) ? kNames[static_cast<size_t>(code)]
                                                             : "";
}

}  // namespace

std::vector<Finding> check_nccl(const NcclLog& log) {
  return Checker(log).run();
}

Progress nccl_progress(const NcclLog& log) {
  Progress progress;
  std::map<std::string, std::map<int, uint64_t>> last;
  for (const auto& [id, by_address] : log.calls) {
    for (const auto& [address, calls] : by_address) {
      auto named = log.communicator_at.find({id, address});
      if (named == log.communicator_at.end() || calls.empty()) continue;
      auto communicator = log.communicators.find(named->second);
      if (communicator == log.communicators.end()) continue;
      int rank = -1;
      for (const auto& [number, process] : communicator->second.completed) {
        if (process == id) rank = number;
      }
      if (rank < 0) continue;
      std::string key = group_key(named->second, {});
      progress.groups[key].name = named->second;
      for (const NcclCall& from : calls) {
        Call call;
        call.group = key;
        call.op = plain_op(from.op);
        call.is_p2p = call.op == "send" || call.op == "recv";
        call.sequence = static_cast<int64_t>(from.op_count);
        call.num_elements_in = from.count;
        call.dtype = datatype_name(from.datatype);
        call.state =
            CallState::kCompleted;  // the trace does not say; only what was called is compared
        progress.ranks[rank].calls.push_back(std::move(call));
      }
      last[key][rank] = calls.back().op_count;
    }
  }
  if (log.is_torn_down) return progress;
  for (const auto& [key, by_rank] : last) {
    auto [least, most] =
        std::minmax_element(by_rank.begin(), by_rank.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    if (least->second == most->second) continue;
    std::vector<int> behind;
    for (const auto& [rank, count] : by_rank) {
      if (count == least->second) behind.push_back(rank);
    }
    progress.claims.push_back(
        {Claim::Kind::kBehind, key, std::move(behind),
         fmt::format("called collectives up to opCount {:x} where others came to {:x}",
                     least->second, most->second),
         ""});
  }
  return progress;
}

}  // namespace monograph::diagnose
