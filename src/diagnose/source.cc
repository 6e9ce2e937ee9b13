#include "diagnose/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/error.h"
#include "diagnose/text_log.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargeBytes = std::uintmax_t{16} << 20;

// What came of one file.
struct Outcome {
  std::unique_ptr<Facts> facts;
  Finding fault;  // `code` is empty if there is none
  bool is_truncated = false;
};

Finding unreadable(const std::string& path, std::string why, std::string advice) {
  Finding finding;
  finding.code = "unreadable";
  finding.severity = Severity::kWarning;
  finding.what = fmt::format("'{}' could not be read", path);
  finding.why = std::move(why);
  finding.advice = std::move(advice);
  return finding;
}

Outcome read_file(const std::string& path, const ReadOptions& options) {
  Outcome outcome;
  try {
    Input input(path, options);
    if (input.head().empty()) {
      outcome.fault = unreadable(path, "the file is empty", "");
      outcome.fault.code = "empty";
      outcome.fault.severity = Severity::kNote;
      outcome.fault.what = fmt::format("'{}' is empty", path);
      outcome.facts = std::make_unique<TextFacts>();  // that its rank is there may matter
      outcome.facts->path = path;
      outcome.facts->rank = rank_of_name(path);
      return outcome;
    }
    for (const Reader& reader : readers()) {
      if (!reader.accepts(input.head(), path)) continue;
      outcome.facts = reader.read(input);
      outcome.is_truncated = input.is_truncated();
      if (outcome.facts) {
        outcome.facts->path = path;
        if (outcome.facts->rank < 0) outcome.facts->rank = rank_of_name(path);
      }
      return outcome;
    }
    outcome.fault = unreadable(path, "its content is of no kind known here",
                               "give logs or traces; leave other files out of the folder");
    outcome.fault.severity = Severity::kNote;
  } catch (const std::exception& error) {
    outcome.fault = unreadable(path, error.what(), "check that the file is whole and readable");
  }
  return outcome;
}

// A text log holds the facts of several subjects.
void add_facts(std::unique_ptr<Facts> facts, FactsList& all) {
  if (auto* text = dynamic_cast<TextFacts*>(facts.get())) {
    for (auto& part : text->parts) {
      part->path = text->path;
      if (part->rank < 0) part->rank = text->rank;
      all.push_back(std::move(part));
    }
    text->parts.clear();
  }
  all.push_back(std::move(facts));
}

bool is_large(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return !error && size > kLargeBytes;
}

// Large files are read one after another, each by all threads; of the others each thread takes one
// after another.
std::vector<Outcome> read_files(const std::vector<std::string>& files, ReadOptions options) {
  std::vector<Outcome> outcomes(files.size());
  std::vector<std::size_t> small;
  const bool share = files.size() < options.num_threads;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (share || is_large(files[i])) {
      outcomes[i] = read_file(files[i], options);
    } else {
      small.push_back(i);
    }
  }
  const unsigned num_threads = std::exchange(options.num_threads, 1);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < small.size(); i = next++) {
      outcomes[small[i]] = read_file(files[small[i]], options);
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min<std::size_t>(small.size(), num_threads); ++i) {
    threads.emplace_back(work);
  }
  work();
  threads.clear();
  return outcomes;
}

// The number after the last "rank" (or a lone "r") of a file's name; -1 if none.
int number_after(std::string_view name, std::string_view word) {
  for (std::size_t at = name.rfind(word); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : name.rfind(word, at - 1)) {
    const bool starts = at == 0 || !std::isalpha(static_cast<unsigned char>(name[at - 1]));
    std::size_t digit = at + word.size();
    while (digit < name.size() && std::strchr("_-.=:", name[digit]) != nullptr) ++digit;
    int value = 0;
    std::size_t end = digit;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) &&
           end - digit < 7) {
      value = value * 10 + (name[end++] - '0');
    }
    const bool stops = end == name.size() || !std::isalnum(static_cast<unsigned char>(name[end]));
    if (end > digit && stops && (starts || word.size() > 1)) return value;
  }
  return -1;
}

std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  if (slash == std::string_view::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

int rank_in(std::string_view text) {
  std::string name(text);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view word : {"rank", "process", "r"}) {
    const int rank = number_after(name, word);
    if (rank >= 0) return rank;
  }
  return -1;
}

// "rank_3"; torchrun writes to ".../attempt_0/3/".
int rank_of_folder(std::string_view folder) {
  const auto [above, name] = split_path(folder);
  const bool number =
      !name.empty() && name.size() < 7 &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (number && split_path(above).second.starts_with("attempt_")) {
    return std::stoi(std::string(name));
  }
  return name.starts_with("rank") ? rank_in(name) : -1;
}

// One finding for what several logs of one job, or runs of it, say in the same words.
void merge_equal(std::vector<Finding>& findings) {
  std::vector<Finding> merged;
  for (Finding& finding : findings) {
    bool known = false;
    for (Finding& other : merged) {
      if (other.code != finding.code || other.what != finding.what ||
          describe(other.where) != describe(finding.where)) {
        continue;
      }
      other.count = std::max(other.count, finding.count);
      other.weight = std::max(other.weight, finding.weight);
      if (other.evidence.empty()) other.evidence = std::move(finding.evidence);
      known = true;
      break;
    }
    if (!known) merged.push_back(std::move(finding));
  }
  findings = std::move(merged);
}

}  // namespace

std::vector<std::string> find_files(const std::vector<std::string>& paths, Report& report) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error)) {
      report.findings.push_back(
          unreadable(path, "no such file or folder", "check the spelling of the path"));
      continue;
    }
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator it(path, options, error), end; it != end && !error;
         it.increment(error)) {
      const std::string name = it->path().filename().string();
      std::error_code ignored;
      if (name.starts_with('.')) {
        if (it->is_directory(ignored)) it.disable_recursion_pending();
      } else if (it->is_regular_file(ignored)) {
        found.push_back(it->path().string());
      }
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  // The same file given twice is one file.
  std::vector<std::string> unique;
  for (std::string& file : files) {
    if (std::find(unique.begin(), unique.end(), file) == unique.end()) {
      unique.push_back(std::move(file));
    }
  }
  return unique;
}

int rank_of_name(std::string_view path) {
  const auto [folder, name] = split_path(path);
  const int rank = rank_in(name);
  if (rank >= 0) return rank;
  return rank_of_folder(folder);
}

std::string job_folder(std::string_view path) {
  const auto [folder, name] = split_path(path);
  if (rank_of_folder(folder) < 0) return std::string(folder);
  return std::string(split_path(folder).first);
}

Report diagnose_paths(const std::vector<std::string>& paths, std::string title,
                      ReadOptions options) {
  if (options.num_threads == 0) {
    options.num_threads = std::max(1u, std::thread::hardware_concurrency());
  }
  Report report;
  report.title = std::move(title);
  const std::vector<std::string> files = find_files(paths, report);
  std::vector<Outcome> outcomes = read_files(files, options);
  FactsList all;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    Outcome& outcome = outcomes[i];
    if (!outcome.fault.code.empty()) report.findings.push_back(std::move(outcome.fault));
    if (!outcome.facts) continue;
    ++report.files_read;
    if (outcome.is_truncated) {
      Finding finding = unreadable(files[i], "its gzip data ends early or is damaged",
                                   "copy the file again; what came before the damage was read");
      finding.code = "truncated";
      finding.what = fmt::format("'{}' was read only in part", files[i]);
      report.findings.push_back(std::move(finding));
    }
    add_facts(std::move(outcome.facts), all);
  }
  for (const Conclusion& conclusion : conclusions()) conclusion.conclude(all, report);
  merge_equal(report.findings);
  sort_findings(report);
  return report;
}

}  // namespace monograph::diagnose
