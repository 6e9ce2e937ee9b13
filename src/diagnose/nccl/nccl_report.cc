#include "diagnose/nccl/nccl_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "diagnose/hang/hang.h"
#include "diagnose/hang/hang_report.h"
#include "diagnose/nccl/nccl_checks.h"
#include "diagnose/report_words.h"

namespace monograph::diagnose {
namespace {

class NcclLineReader : public LineReader {
 public:
  void read(const Line& line) override {
    if (!line.is_of_compiler()) reader_.read(line.text);
  }

  std::unique_ptr<Facts> finish() override {
    NcclLog log = reader_.finish();
    if (log.empty()) return nullptr;
    auto facts = std::make_unique<NcclFacts>();
    facts->log = std::move(log);
    return facts;
  }

 private:
  NcclLogReader reader_;
};

bool is_whole(const NcclLog& log) {
  return std::any_of(log.communicators.begin(), log.communicators.end(), [](const auto& entry) {
    const NcclCommunicator& communicator = entry.second;
    return communicator.num_ranks > 1 &&
           static_cast<int64_t>(communicator.completed.size()) == communicator.num_ranks;
  });
}

std::string links_text(const NcclProcess& process) {
  std::string out;
  for (const auto& [kind, links] : process.links) {
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}", links.num_links, kind);
    if (!links.nics.empty()) out += fmt::format(" (NIC {})", fmt::join(links.nics, " "));
    if (links.num_gdr > 0) out += " GDR";
  }
  return out;
}

Table process_table(const NcclLog& log) {
  Table table{"ranks", {"rank", "host", "GPU", "network", "NICs", "links", "channels"}, {}};
  constexpr size_t kMaxRows = 256;
  std::vector<std::pair<int, const std::pair<const NcclProcessId, NcclProcess>*>> order;
  for (const auto& entry : log.processes) order.emplace_back(entry.second.rank, &entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [rank, entry] : order) {
    if (table.rows.size() == kMaxRows) break;
    const auto& [id, process] = *entry;
    table.rows.push_back(
        {rank < 0 ? Cell("-") : Cell(int64_t{rank}), id.host, int64_t{id.device}, process.network,
         static_cast<int64_t>(process.nics.size()), links_text(process),
         process.num_channels < 0 ? Cell("-") : Cell(int64_t{process.num_channels})});
  }
  return table;
}

Table communicator_table(const NcclLog& log) {
  Table table{"communicators",
              {"id", "ranks", "seen", "hosts", "rings", "first ring", "trees", "root of tree 0"},
              {}};
  constexpr size_t kMaxRows = 64;
  for (const auto& [id, communicator] : log.communicators) {
    if (table.rows.size() == kMaxRows) break;
    std::string root = "?";
    if (auto tree = communicator.parents.find(0); tree != communicator.parents.end()) {
      for (const auto& [rank, parent] : tree->second) {
        if (parent < 0) root = fmt::format("{}", rank);
      }
    }
    std::string ring = communicator.rings.empty() ? "" : communicator.rings.begin()->second;
    if (ring.size() > 40) ring = ring.substr(0, 40) + "...";
    table.rows.push_back(
        {id, communicator.num_ranks, static_cast<int64_t>(communicator.completed.size()),
         communicator.num_nodes, static_cast<int64_t>(communicator.rings.size()), std::move(ring),
         static_cast<int64_t>(communicator.parents.size()), std::move(root)});
  }
  return table;
}

Table environment_table(const NcclLog& log) {
  Table table{"environment", {"variable", "value", "ranks"}, {}};
  std::map<std::pair<std::string, std::string>, std::set<int>> values;
  for (const auto& [id, process] : log.processes) {
    for (const auto& [name, value] : process.environment)
      values[{name, value}].insert(process.rank);
  }
  for (const auto& [key, ranks] : values)
    table.rows.push_back({key.first, key.second, rank_list(ranks)});
  return table;
}

}  // namespace

std::unique_ptr<LineReader> make_nccl_reader() {
  return std::make_unique<NcclLineReader>();
}

void conclude_nccl(const FactsList& facts, Report& report) {
  // Files of one folder and name are one job, unless a file holds all ranks by itself.
  std::map<std::string, NcclLog> jobs;
  for (const NcclFacts* file : facts_of<NcclFacts>(facts)) {
    std::string job = is_whole(file->log) ? file->path : job_of_path(file->path);
    merge_nccl_logs(jobs[job], NcclLog(file->log));
  }
  for (const auto& [job, log] : jobs) {
    for (Finding& finding : check_nccl(log)) report.findings.push_back(std::move(finding));
    Progress progress = nccl_progress(log);
    if (Hang hang = find_hang(progress); hang.kind != Hang::Kind::kNone) {
      Finding finding = to_finding(hang, progress);
      // A log that was cut off, or of a running job, ends like this too.
      if (hang.kind == Hang::Kind::kMissing) finding.severity = Severity::kNote;
      report.findings.push_back(std::move(finding));
    }
    Section section;
    section.title = "NCCL";
    section.lines.push_back(fmt::format(
        "{}: {}, {}, version {}", job,
        count_of(static_cast<int64_t>(log.processes.size()), "process", "processes"),
        count_of(static_cast<int64_t>(log.communicators.size()), "communicator"),
        log.versions.empty() ? "not said" : fmt::format("{}", fmt::join(log.versions, ", "))));
    section.tables.push_back(process_table(log));
    if (!log.communicators.empty()) section.tables.push_back(communicator_table(log));
    if (Table environment = environment_table(log); !environment.rows.empty()) {
      section.tables.push_back(std::move(environment));
    }
    report.sections.push_back(std::move(section));
  }
}

}  // namespace monograph::diagnose
