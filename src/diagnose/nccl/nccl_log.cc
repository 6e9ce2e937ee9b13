#include "diagnose/nccl/nccl_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

constexpr size_t kMaxCalls = 4096;    // kept for each communicator of a process
constexpr size_t kMaxWarnings = 200;  // different ones
constexpr int64_t kMaxRank = 1 << 24;

// What stands before "NCCL INFO" and "NCCL WARN": "host:pid:tid [dev] ", for WARN also "file:line
// ".
struct Head {
  NcclProcessId process;
  size_t begin = 0;    // of the host in the text
  size_t message = 0;  // behind the level
  bool is_warning = false;
};

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The head whose "[dev] " ends at `bracket` (the place of '['); nothing if it is torn.
std::optional<Head> head_before(std::string_view text, size_t bracket) {
  Head head;
  size_t close = text.find(']', bracket);
  if (close == std::string_view::npos || close > bracket + 6 || bracket < 2) return std::nullopt;
  std::optional<int64_t> device = number(text.substr(bracket + 1, close - bracket - 1));
  size_t space = bracket - 1;
  size_t begin = text.find_last_of(" \t|>)", space - 1);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  std::string_view place = text.substr(begin, space - begin);
  size_t tid = place.rfind(':');
  size_t pid = tid == std::string_view::npos || tid == 0 ? tid : place.rfind(':', tid - 1);
  if (!device || pid == std::string_view::npos || pid == 0) return std::nullopt;
  std::optional<int64_t> pid_value = number(place.substr(pid + 1, tid - pid - 1));
  if (!pid_value || !number(place.substr(tid + 1))) return std::nullopt;
  head.process = {std::string(place.substr(0, pid)), *pid_value, static_cast<int>(*device)};
  head.begin = begin;
  return head;
}

// The first NCCL line in the text at or after `from`.
std::optional<Head> find_head(std::string_view text, size_t from) {
  while (true) {
    size_t mark = text.find(" NCCL ", from);
    if (mark == std::string_view::npos) return std::nullopt;
    from = mark + 6;
    std::string_view level = text.substr(mark + 6, 5);
    if (level != "INFO " && level != "WARN ") continue;
    // Between the device and the level a warning names its source file.
    size_t bracket = text.rfind('[', mark);
    for (int tries = 0; bracket != std::string_view::npos && tries < 3; ++tries) {
      std::optional<Head> head = mark - bracket < 200 ? head_before(text, bracket) : std::nullopt;
      if (head) {
        head->message = mark + 11;
        head->is_warning = level == "WARN ";
        return head;
      }
      bracket = bracket == 0 ? std::string_view::npos : text.rfind('[', bracket - 1);
    }
  }
}

std::string_view word(std::string_view text) {
  text = trim(text);
  size_t end = text.find_first_of(" \t,;");
  return text.substr(0, end);
}

// "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>" and "[0]={[0] mlx5_2:1/RoCE, [1]
// mlx5_3:1/RoCE}".
std::vector<std::string> listed_nics(std::string_view text) {
  std::vector<std::string> nics;
  text = before(text, ";");
  for (size_t open = text.find('['); open != std::string_view::npos;
       open = text.find('[', open + 1)) {
    size_t close = text.find(']', open);
    if (close == std::string_view::npos) break;
    if (!number(text.substr(open + 1, close - open - 1))) continue;
    std::string_view rest = text.substr(close + 1);
    if (rest.starts_with("={")) {
      size_t end = rest.find('}');
      std::string_view pair = rest.substr(2, end == std::string_view::npos ? end : end - 2);
      nics.emplace_back(pair);
      open = end == std::string_view::npos ? text.size() - 1 : close + end;
      continue;
    }
    std::string_view name = word(rest);
    if (!name.empty() && name.front() != '[') nics.emplace_back(name);
  }
  return nics;
}

}  // namespace

class NcclLogReader::Impl {
 public:
  void read(std::string_view text) {
    size_t from = 0;
    std::optional<Head> head = find_head(text, from);
    if (!head) return read_bare(text);
    mend(*head);
    while (head) {
      std::optional<Head> next = find_head(text, head->message);
      if (next) mend(*next);
      std::string_view message = text.substr(head->message, next && next->begin > head->message
                                                                ? next->begin - head->message
                                                                : std::string_view::npos);
      ++log_.num_lines;
      if (head->is_warning) {
        on_warning(*head, trim(message), text);
      } else {
        on_info(*head, trim(message));
      }
      head = next;
    }
  }

  NcclLog finish() { return std::move(log_); }

 private:
  // Where the end of the line before was lost, its last word sticks to the host's name: take it off
  // if the rest is a process known already.
  void mend(Head& head) {
    if (log_.processes.contains(head.process)) return;
    for (const auto& [id, process] : log_.processes) {
      bool same = id.pid == head.process.pid && id.device == head.process.device &&
                  head.process.host.ends_with(id.host);
      if (!same) continue;
      head.begin += head.process.host.size() - id.host.size();
      head.process.host = id.host;
      return;
    }
    std::string& host = head.process.host;
    for (const std::string& known : hosts_) {
      if (host.size() > known.size() && host.ends_with(known)) {
        head.begin += host.size() - known.size();
        host = known;
        return;
      }
    }
    if (head.begin == 0 && hosts_.size() < 100'000) hosts_.insert(host);
  }

  // "NCCL version 2.10.3+cuda11.3" has no prefix.
  void read_bare(std::string_view text) {
    text = trim(text);
    if (!text.starts_with("NCCL version ") || has(text, "compiled with"))
      return;  // the latter is RAS
    ++log_.num_lines;
    log_.versions.insert(std::string(word(text.substr(13))));
  }

  void on_info(const Head& head, std::string_view message) {
    NcclProcess& process = log_.processes[head.process];
    if (auto rest = after(message, "NCCL version ")) {
      process.version = word(*rest);
      log_.versions.insert(process.version);
    } else if (auto plugin = after(message, "Using network ")) {
      process.network = word(*plugin);
    } else if (message.starts_with("Assigned NET plugin ")) {
      process.network = word(message.substr(20));
    } else if (auto bootstrap = after(message, "Bootstrap : Using ")) {
      on_bootstrap(process, *bootstrap);
    } else if (auto since_2_24 = after(message, "Bootstrap: Using ")) {
      on_bootstrap(process, *since_2_24);
    } else if (message.starts_with("NET/IB")) {
      on_ib(process, message);
    } else if (message.starts_with("Channel ")) {
      on_channel(head.process, process, message);
    } else if (has(message, " set by environment to ")) {
      std::string name(word(message));
      if (name.starts_with("NCCL_")) process.environment[name] = environment_value(message);
    } else if (message.starts_with("comm 0x") || message.starts_with("ncclComm")) {
      on_communicator(head.process, process, message);
    } else if (has(message, "opCount ") && has(message, "sendbuff ")) {
      on_call(head.process, message);
    } else if (message.starts_with("NVLS multicast support is ")) {
      process.nvls = has(message, "is not available") ? 0 : 1;
    } else if (has(message, " coll channels")) {
      process.num_channels = leading_integer(message).value_or(-1);
    } else if (message.starts_with("Trees ")) {
      on_trees(head.process, message);
    }
  }

  static std::string environment_value(std::string_view message) {
    std::string_view value = trim(*after(message, " set by environment to "));
    if (value.ends_with(".")) value.remove_suffix(1);  // 2.x ends the sentence
    return std::string(value);
  }

  // "eth0:10.0.0.1<0>", before 2.9 "[0]ib0:10.0.0.76<0> [1]ib1:..."
  static void on_bootstrap(NcclProcess& process, std::string_view text) {
    text = trim(text);
    if (text.starts_with("[")) {
      if (size_t close = text.find(']'); close != std::string_view::npos)
        text.remove_prefix(close + 1);
    }
    process.bootstrap = before(text, ":");
  }

  static void on_ib(NcclProcess& process, std::string_view message) {
    if (has(message, "No device found")) process.no_ib_device = true;
    if (auto used = after(message, ": Using ")) process.nics = listed_nics(*used);
    size_t gdr = message.find("GPU Direct RDMA ");
    if (gdr == std::string_view::npos) return;
    std::string_view rest = message.substr(gdr + 16);
    std::string hca = "HCA";
    if (auto quoted = after(rest, "'")) {
      hca = before(*quoted, "'");
    } else if (auto bare = after(rest, "HCA ")) {
      hca = word(*bare);
    }
    if (rest.starts_with("Disabled")) process.gdr_disabled.try_emplace(hca, message);
    if (rest.starts_with("Enabled")) process.gdr_enabled.insert(hca);
  }

  void on_channel(const NcclProcessId& id, NcclProcess& process, std::string_view message) {
    std::optional<std::string_view> via = after(message, " via ");
    if (!via) {
      on_ring(id, message);
      return;
    }
    std::string_view route = word(*via);
    std::string kind(before(route, "/"));
    if (kind != "P2P" && kind != "SHM" && kind != "NET") {
      kind = kind.starts_with("direct") || kind.starts_with("P2P") ? "P2P" : kind;
    }
    NcclLinks& links = process.links[kind];
    ++links.num_links;
    if (links.example.empty()) links.example = message.substr(0, 200);
    if (kind != "NET") return;
    if (has(route, "GDRDMA")) ++links.num_gdr;
    std::optional<std::string_view> plugin = after(route, "/");
    std::optional<std::string_view> index = plugin ? after(*plugin, "/") : std::nullopt;
    std::optional<int64_t> nic = index ? leading_integer(*index) : std::nullopt;
    if (!nic || *nic < 0 || *nic > 4096) return;
    links.nics.insert(static_cast<int>(*nic));
    std::string channel(word(message.substr(8)));
    std::optional<std::string_view> from = after(message, " : ");
    std::optional<std::string_view> to = after(message, " -> ");
    if (!from || !to || plugin->starts_with("Socket") || log_.hops.size() > 1'000'000) return;
    std::string pair = fmt::format("{}->{}", before(*from, "["), before(*to, "["));
    NcclHop& hop = log_.hops[{channel, pair}];
    (has(message, "[send]") ? hop.send_nic : hop.receive_nic) = static_cast<int>(*nic);
  }

  // "Channel 00/12 :    0   1   2   3"
  void on_ring(const NcclProcessId& id, std::string_view message) {
    std::optional<int64_t> channel = leading_integer(message.substr(8));
    std::optional<std::string_view> order = after(message, " :");
    if (!channel || !order || *channel < 0 || *channel > 1024) return;
    std::string text;
    for (std::string_view rest = trim(*order); !rest.empty();) {
      std::string_view next = rest.substr(0, rest.find(' '));
      if (!text.empty()) text += ' ';
      text += next;
      rest = trim(rest.substr(next.size()));
    }
    pending_[id].rings[static_cast<int>(*channel)] = std::move(text);
  }

  // "Trees [0] 3/-1/-1->2->1 [1] ...": children->rank->parent; before 2.8 the way back follows
  // after '|'.
  void on_trees(const NcclProcessId& id, std::string_view message) {
    for (size_t open = message.find('['); open != std::string_view::npos;
         open = message.find('[', open + 1)) {
      std::optional<int64_t> channel = leading_integer(message.substr(open + 1));
      size_t close = message.find(']', open);
      if (!channel || close == std::string_view::npos || *channel < 0 || *channel > 1024) continue;
      std::string_view tree = word(message.substr(close + 1));
      tree = before(tree, "|");
      size_t last = tree.rfind("->");
      size_t first = tree.find("->");
      if (first == std::string_view::npos || first == last) continue;
      std::optional<int64_t> rank = number(tree.substr(first + 2, last - first - 2));
      std::optional<int64_t> parent = number(tree.substr(last + 2));
      if (!rank || !parent || *rank < 0 || *rank >= kMaxRank) continue;
      pending_[id].parents[static_cast<int>(*channel)][static_cast<int>(*rank)] =
          static_cast<int>(*parent);
    }
  }

  // "comm 0x.. rank 1 nranks 4 cudaDev 1 busId 1c000 commId 0x.. - Init COMPLETE", "comm 0x.. rank
  // 0 nRanks 16 nNodes 2 localRanks 8 ..."; from 2.19 some begin with the name of the call.
  void on_communicator(const NcclProcessId& id, NcclProcess& process, std::string_view message) {
    std::optional<std::string_view> comm = after(message, "comm 0x");
    std::optional<int64_t> rank = integer_after(message, " rank ");
    std::optional<int64_t> size = integer_after(message, " nranks ");
    if (!size) size = integer_after(message, " nRanks ");
    if (has(message, "Destroy") || has(message, "Abort")) log_.is_torn_down = true;
    if (!comm || !rank || !size || *rank < 0 || *rank >= kMaxRank || *size <= *rank) return;
    std::string address(word(*comm));
    std::string key = communicator_key(id, address, message, static_cast<int>(*rank), *size);
    NcclCommunicator& communicator = log_.communicators[key];
    communicator.id = key;
    communicator.num_ranks = *size;
    if (auto nodes = integer_after(message, " nNodes ")) communicator.num_nodes = *nodes;
    if (has(message, "Init START")) {
      communicator.has_start_lines = true;
      communicator.started[static_cast<int>(*rank)] = id;
    }
    if (has(message, "Init COMPLETE")) communicator.completed[static_cast<int>(*rank)] = id;
    take_pending(id, communicator);
    if (*size > process.num_ranks) {
      process.rank = static_cast<int>(*rank);
      process.num_ranks = *size;
    }
  }

  // From 2.18 on the commId is the same on all ranks. Before, a rank's n-th communicator of a size
  // belongs to the n-th of the other ranks.
  std::string communicator_key(const NcclProcessId& id, const std::string& address,
                               std::string_view message, int rank, int64_t size) {
    std::string& known = log_.communicator_at[{id, address}];
    if (auto stated = after(message, "commId ")) {
      known = word(*stated);
      return known;
    }
    // A split is the same on all ranks by its parent, the number of the split and the colour.
    if (auto parent = after(message, " parent 0x")) {
      auto from = log_.communicator_at.find({id, std::string(word(*parent))});
      std::string_view colour = word(after(message, " color ").value_or(""));
      if (from != log_.communicator_at.end() && !from->second.empty()) {
        known = fmt::format("{}/split {}/color {}", from->second,
                            integer_after(message, "splitCount ").value_or(0), colour);
        return known;
      }
    }
    // An address may be used again after the communicator is gone.
    bool is_new = known.empty() ||
                  (has(message, "Init COMPLETE") && log_.communicators.contains(known) &&
                   log_.communicators[known].completed.contains(rank) && !known.starts_with("0x"));
    if (is_new) known = fmt::format("{} ranks, no. {}", size, ++num_seen_[{id, size}]);
    return known;
  }

  // Rings and trees are printed before the line that names the communicator they belong to is
  // complete.
  void take_pending(const NcclProcessId& id, NcclCommunicator& communicator) {
    auto found = pending_.find(id);
    if (found == pending_.end()) return;
    for (auto& [channel, ring] : found->second.rings) communicator.rings[channel] = std::move(ring);
    for (auto& [channel, parents] : found->second.parents)
      communicator.parents[channel].merge(parents);
    pending_.erase(found);
  }

  // "AllReduce: opCount 139d sendbuff 0x.. recvbuff 0x.. count 7382228 datatype 7 op 0 root 0 comm
  // 0x.. [nranks=128] stream 0x.."
  void on_call(const NcclProcessId& id, std::string_view message) {
    NcclCall call;
    call.op = before(message, ":");
    std::string_view hex = word(*after(message, "opCount "));
    std::from_chars(hex.data(), hex.data() + hex.size(), call.op_count, 16);
    call.count = integer_after(message, " count ").value_or(-1);
    call.datatype = static_cast<int>(
        std::clamp<int64_t>(integer_after(message, " datatype ").value_or(-1), -1, 99));
    std::optional<std::string_view> comm = after(message, " comm 0x");
    if (!comm) return;
    NcclCalls& list = log_.calls[id][std::string(word(*comm))];
    if (list.calls.size() >= kMaxCalls) {
      list.calls.erase(list.calls.begin(), list.calls.begin() + kMaxCalls / 2);
      list.num_dropped += kMaxCalls / 2;
    }
    list.calls.push_back(std::move(call));
  }

  void on_warning(const Head& head, std::string_view message, std::string_view line) {
    std::string gist;  // the same message from many ranks differs in numbers only
    for (char c : message) {
      if (!is_digit(c)) gist += c;
      if (gist.size() > 120) break;
    }
    auto found = log_.warnings.find(gist);
    if (found == log_.warnings.end()) {
      if (log_.warnings.size() >= kMaxWarnings) return;
      found = log_.warnings.try_emplace(gist).first;
      found->second.message = message.substr(0, 400);
      found->second.line = trim(line).substr(0, 400);
    }
    ++found->second.count;
    found->second.processes.insert(head.process);
    log_.processes[head.process];
  }

  struct Pending {
    std::map<int, std::string> rings;
    std::map<int, std::map<int, int>> parents;
  };

  NcclLog log_;
  std::set<std::string> hosts_;  // that began a line of their own
  std::map<NcclProcessId, Pending> pending_;
  std::map<std::pair<NcclProcessId, int64_t>, int> num_seen_;
};

NcclLogReader::NcclLogReader() : impl_(std::make_unique<Impl>()) {}
NcclLogReader::~NcclLogReader() = default;
void NcclLogReader::read(std::string_view line) {
  impl_->read(line);
}
NcclLog NcclLogReader::finish() {
  return impl_->finish();
}

void merge_nccl_logs(NcclLog& whole, NcclLog&& part) {
  for (auto& [id, process] : part.processes) {
    auto [known, is_new] = whole.processes.try_emplace(id, std::move(process));
    // The same process in two files: the file with more of it stands.
    if (!is_new && process.num_ranks > known->second.num_ranks) known->second = std::move(process);
  }
  for (auto& [id, communicator] : part.communicators) {
    auto [known, is_new] = whole.communicators.try_emplace(id, std::move(communicator));
    if (is_new) continue;
    NcclCommunicator& target = known->second;
    target.num_nodes = std::max(target.num_nodes, communicator.num_nodes);
    target.started.merge(communicator.started);
    target.completed.merge(communicator.completed);
    target.has_start_lines = target.has_start_lines || communicator.has_start_lines;
    target.rings.merge(communicator.rings);
    for (auto& [channel, parents] : communicator.parents) target.parents[channel].merge(parents);
  }
  for (auto& [gist, warning] : part.warnings) {
    auto [known, is_new] = whole.warnings.try_emplace(gist, std::move(warning));
    if (is_new) continue;
    known->second.count += warning.count;
    known->second.processes.merge(warning.processes);
  }
  for (auto& [key, hop] : part.hops) {
    NcclHop& target = whole.hops[key];
    if (hop.send_nic >= 0) target.send_nic = hop.send_nic;
    if (hop.receive_nic >= 0) target.receive_nic = hop.receive_nic;
  }
  whole.versions.merge(part.versions);
  whole.calls.merge(part.calls);
  whole.communicator_at.merge(part.communicator_at);
  whole.is_torn_down = whole.is_torn_down || part.is_torn_down;
  whole.num_lines += part.num_lines;
}

}  // namespace monograph::diagnose
