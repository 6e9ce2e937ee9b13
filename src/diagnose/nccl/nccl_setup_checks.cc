#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "diagnose/hang/progress.h"
#include "diagnose/line_scan.h"
#include "diagnose/nccl/nccl_advice.h"
#include "diagnose/nccl/nccl_checker.h"

namespace monograph::diagnose {
namespace {

class SetupChecks : NcclChecker {
 public:
  using NcclChecker::NcclChecker;

  void run() {
    check_versions();
    check_start();
    check_environment();
    check_asked();
    check_hosts();
    check_rings();
    check_warnings();
  }

 private:
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

  void check_environment() {
    std::set<std::string> names;
    for (const auto& [id, process] : log_.processes) {
      for (const auto& [name, value] : process.environment) names.insert(name);
    }
    for (const std::string& name : names) {
      if (may_differ(name)) continue;
      Groups groups;
      for (const auto& [id, process] : log_.processes) {
        // A process that said nothing at all was cut off or logs less.
        if (process.environment.empty() && process.network.empty()) continue;
        auto found = process.environment.find(name);
        groups[found == process.environment.end() ? "not set" : found->second].push_back(&id);
      }
      if (groups.size() < 2 || read_by_leaders_only(groups)) continue;
      const auto& [odd, members] = smallest(groups);
      Finding& finding = add(
          "nccl_environment_differs", Severity::kWarning,
          fmt::format("{} differs between ranks: {} on {}", name, odd, who(members)),
          "the launcher or a shell profile gives hosts different environments",
          fmt::format("export {} to all ranks alike (elsewhere: {})", name, largest_name(groups)));
      finding.where.ranks = ranks_of(members);
      finding.evidence = sides(groups);
    }
  }

  // NCCL prints a variable when it first reads it, and some are read by one process of a host or
  // job only.
  bool read_by_leaders_only(const Groups& groups) const {
    auto silent = groups.find("not set");
    if (groups.size() != 2 || silent == groups.end()) return false;
    for (const auto& [value, members] : groups) {
      if (value == "not set") continue;
      bool root_only = members.size() == 1 && log_.processes.at(*members.front()).rank == 0;
      bool one_a_host = members.size() == num_gpus_.size() &&
                        std::all_of(members.begin(), members.end(),
                                    [](const NcclProcessId* id) { return id->device == 0; });
      if (root_only || (one_a_host && num_gpus_.size() < log_.processes.size())) return true;
    }
    return false;
  }

  static bool may_differ(const std::string& name) {
    static constexpr std::array<std::string_view, 4> kOwn{"NCCL_DEBUG_FILE", "NCCL_HOSTID",
                                                          "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"};
    return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
  }

  // What a variable asked for against what NCCL did.
  void check_asked() {
    Groups refused;
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

  static std::string value_of(const NcclProcess& process, const std::string& name) {
    const auto found = process.environment.find(name);
    return found == process.environment.end() ? std::string() : found->second;
  }

  static std::string refusal_of(const NcclProcess& process) {
    std::string net = value_of(process, "NCCL_NET");
    if (!net.empty() && !process.network.empty() && net != process.network) {
      return fmt::format("NCCL_NET asks for {}, NCCL uses {}", net, process.network);
    }
    std::string hca = value_of(process, "NCCL_IB_HCA");
    if (!hca.empty() && process.network == "Socket") {
      return fmt::format("NCCL_IB_HCA={} asks for InfiniBand or RoCE, NCCL uses sockets", hca);
    }
    if (!process.nics.empty()) {
      const std::vector<std::string> missing = unmet(hca, process.nics);
      if (!missing.empty()) {
        return fmt::format("NCCL_IB_HCA asks for {}, which NCCL does not list",
                           fmt::join(missing, ", "));
      }
    }
    std::string interface = value_of(process, "NCCL_SOCKET_IFNAME");
    if (process.bootstrap.empty()) return {};
    const std::vector<std::string> missing = unmet(interface, {process.bootstrap});
    const auto num_asked = std::count(interface.begin(), interface.end(), ',') + 1;
    // One of those asked for is enough.
    if (static_cast<int64_t>(missing.size()) < num_asked) return {};
    return fmt::format("NCCL_SOCKET_IFNAME asks for {}, NCCL uses {}", interface,
                       process.bootstrap);
  }

  // Of a list of names as NCCL takes it ("mlx5", "=mlx5_0:1,mlx5_1:1"; a list of exclusions asks
  // for nothing) those that none of `names` ("mlx5_0:1/IB", "eth0") is.
  static std::vector<std::string> unmet(std::string_view asked,
                                        const std::vector<std::string>& names) {
    std::vector<std::string> missing;
    if (asked.starts_with('^')) return missing;
    const bool exact = asked.starts_with('=');
    if (exact) asked.remove_prefix(1);
    while (!asked.empty()) {
      const std::string_view one = before(asked, ",");
      asked.remove_prefix(std::min(asked.size(), one.size() + 1));
      const bool met = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        const bool whole = exact && name.size() > one.size() && is_word(name[one.size()]);
        return name.starts_with(before(one, ":")) && !whole;
      });
      if (!met) missing.emplace_back(one);
    }
    return missing;
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
};

}  // namespace

void check_nccl_setup(const NcclLog& log, std::vector<Finding>& findings) {
  SetupChecks(log, findings).run();
}

}  // namespace monograph::diagnose
