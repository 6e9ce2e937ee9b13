#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/nccl/nccl_log.h"

namespace monograph::diagnose {

// What every check of an NCCL log needs: who is who, and how the processes fall into groups.
class NcclChecker {
 public:
  // Findings are appended in the order of the checks, which is that of gravity.
  NcclChecker(const NcclLog& log, std::vector<Finding>& findings);

 protected:
  using Members = std::vector<const NcclProcessId*>;
  using Groups = std::map<std::string, Members>;

  Finding& add(std::string_view code, Severity severity, std::string what, std::string why,
               std::string advice);
  std::vector<int> ranks_of(const Members& members) const;
  // "ranks 0-7 (node1)", or hosts alone where ranks are not known.
  std::string who(const Members& members) const;
  // "IB: ranks 0-7 (node1)", a line for each group.
  std::vector<std::string> sides(const Groups& groups) const;
  static const std::pair<const std::string, Members>& smallest(const Groups& groups);
  static std::string largest_name(const Groups& groups);

  // The processes by what `value` says of them; those it says nothing of are left out.
  template <typename Value>
  Groups group_by(Value value) const {
    Groups groups;
    for (const auto& [id, process] : log_.processes) {
      std::string key = value(process);
      if (!key.empty()) groups[key].push_back(&id);
    }
    return groups;
  }

  const NcclLog& log_;
  std::vector<Finding>& findings_;
  std::map<std::string, size_t> num_gpus_;  // of each host, as far as the log shows
  bool is_multi_host_ = false;
};

// How data travels: network, GPU Direct RDMA, NICs, rails, paths inside a host, NVLink SHARP.
void check_nccl_transport(const NcclLog& log, std::vector<Finding>& findings);

// How the job was set up: versions, environment, start, host names, rings, NCCL's own warnings.
void check_nccl_setup(const NcclLog& log, std::vector<Finding>& findings);

}  // namespace monograph::diagnose
