#include "diagnose/compile/root_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

// Seconds that compiling took, by rank, compile id and first line; of the longest if several.
class CompileTimes {
 public:
  explicit CompileTimes(const CompileJob& job) {
    for (const auto& [rank, value] : job.all(&CompileFacts::compilations)) {
      if (value->seconds <= 0 || value->is_backward) continue;
      double& known = seconds_[{rank, value->compile_id, value->function.line}];
      known = std::max(known, value->seconds);
    }
  }

  double of(int rank, const std::string& compile_id, int line) const {
    const auto found = seconds_.find({rank, compile_id, line});
    return found == seconds_.end() ? 0 : found->second;
  }

 private:
  std::map<std::tuple<int, std::string, int>, double> seconds_;
};

std::string function_key(const CompiledFunction& function) {
  return fmt::format("{}|{}|{}", function.name, base_name(function.file), function.line);
}

// A later recompile may list this compilation's own entry: its guard tells the new value.
void fill_actual(std::vector<ExplainedRecompile>& all) {
  for (ExplainedRecompile& one : all) {
    if (!one.guard.actual.empty()) continue;
    for (const ExplainedRecompile& later : all) {
      if (later.rank != one.rank || &later == &one ||
          function_key(later.recompile->function) != function_key(one.recompile->function)) {
        continue;
      }
      for (const GuardFailure& failure : later.recompile->failures) {
        if (without_attempt(failure.entry) != one.recompile->compile_id) continue;
        const Guard guard = parse_guard(failure.text);
        if (guard.key() == one.guard.key() && guard.expected != one.guard.expected) {
          one.guard.actual = guard.expected;
        }
      }
      if (!one.guard.actual.empty()) break;
    }
  }
}

// Whether a continuation's recompile follows from the same change as its function's.
bool same_change(const Guard& a, const Guard& b) {
  if (a.kind != b.kind || a.index != b.index) return false;
  if (a.kind == GuardKind::kGradMode || a.kind == GuardKind::kAutocast) return true;
  return a.expected == b.expected && a.actual == b.actual;
}

// "0/7" is the eighth.
int versions_of(std::string_view compile_id) {
  const std::size_t slash = compile_id.rfind('/');
  if (slash == std::string_view::npos) return 0;
  int number = 0;
  for (const char c : compile_id.substr(slash + 1)) {
    if (c < '0' || c > '9' || number > 1'000'000) return 0;
    number = number * 10 + (c - '0');
  }
  return number + 1;
}

void add(const ExplainedRecompile& one, RecompileCause& cause) {
  cause.ranks.insert(one.rank);
  if (!one.recompile->compile_id.empty()) cause.compile_ids.insert(one.recompile->compile_id);
  cause.count += one.count;
  cause.seconds += one.seconds;
  cause.versions = std::max(cause.versions, versions_of(one.recompile->compile_id));
  if (cause.evidence.size() < 8) {
    cause.evidence.push_back(one.recompile->evidence);
    for (const GuardFailure& failure : one.recompile->failures) {
      if (cause.evidence.size() >= 8) break;
      cause.evidence.push_back(fmt::format("    {}: {}", failure.entry, failure.text));
    }
  }
}

}  // namespace

void add_values(const Guard& guard, RecompileCause& cause) {
  if (!has_values(guard)) return;
  for (const std::string& value : {guard.expected, guard.actual}) {
    const bool known =
        std::find(cause.values.begin(), cause.values.end(), value) != cause.values.end();
    if (!known) cause.values.push_back(value);
  }
}

std::string describe_changes(const RecompileCause& cause) {
  constexpr std::size_t kShown = 5;
  std::string text = describe_guard(cause.guard);
  std::string values;
  std::size_t known = 0;
  for (const std::string& value : cause.values) {
    if (value.empty()) continue;
    if (++known > kShown) continue;
    values += (values.empty() ? "" : " -> ") + value.substr(0, 80);
  }
  if (known == 0) return text;
  if (known == 1 && cause.guard.actual.empty()) return fmt::format("{} (was {})", text, values);
  if (known > kShown) values += fmt::format(" and {} more", known - kShown);
  return text + ": " + values;
}

Continuation continuation_of(std::string_view name) {
  constexpr std::string_view kPrefix = "torch_dynamo_resume_in_";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  const std::size_t at = name.rfind("_at_");
  if (at == std::string_view::npos) return {};
  Continuation result{std::string(name.substr(0, at)), 0};
  for (const char c : name.substr(at + 4)) {
    if (c < '0' || c > '9' || result.line > 100'000'000) return {};
    result.line = result.line * 10 + (c - '0');
  }
  return result;
}

std::vector<ExplainedRecompile> explain_recompiles(const CompileJob& job) {
  const CompileTimes times(job);
  std::vector<ExplainedRecompile> all;
  std::map<std::string, std::vector<std::string>> earlier;  // function on a rank -> guard keys
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::recompiles)) {
    std::vector<std::string>& known =
        earlier[fmt::format("{}|{}", rank, function_key(value->function))];
    ExplainedRecompile one;
    one.rank = rank;
    one.recompile = value;
    one.count = value->count;
    const GuardFailure* cause = cause_of(*value, known);
    if (cause != nullptr) one.guard = parse_guard(cause->text);
    known.push_back(one.guard.key());
    one.seconds = times.of(rank, value->compile_id, value->function.line);
    all.push_back(std::move(one));
  }
  fill_actual(all);
  return all;
}

std::vector<RecompileCause> find_recompile_causes(const CompileJob& job) {
  std::vector<RecompileCause> causes;
  std::map<std::string, std::size_t> index;
  const std::vector<ExplainedRecompile> all = explain_recompiles(job);
  const auto cause_for = [&](const ExplainedRecompile& one) -> RecompileCause& {
    const std::string key = function_key(one.recompile->function) + "|" + one.guard.key();
    const auto [found, is_new] = index.try_emplace(key, causes.size());
    if (is_new) {
      causes.emplace_back();
      causes.back().function = one.recompile->function;
      causes.back().guard = one.guard;
    }
    return causes[found->second];
  };
  // Functions first, so that continuations find what to join.
  for (const ExplainedRecompile& one : all) {
    if (continuation_of(one.recompile->function.name).line > 0) continue;
    RecompileCause& cause = cause_for(one);
    add_values(one.guard, cause);
    add(one, cause);
  }
  for (const ExplainedRecompile& one : all) {
    const Continuation continuation = continuation_of(one.recompile->function.name);
    if (continuation.line == 0) continue;
    RecompileCause* parent = nullptr;
    for (const ExplainedRecompile& other : all) {
      if (other.rank == one.rank && other.recompile->function.name == continuation.function &&
          base_name(other.recompile->function.file) == base_name(one.recompile->function.file) &&
          same_change(other.guard, one.guard)) {
        parent = &cause_for(other);
        break;
      }
    }
    RecompileCause& cause = parent != nullptr ? *parent : cause_for(one);
    if (parent != nullptr) {
      cause.continuations.insert(one.recompile->function.name);
    } else {
      add_values(one.guard, cause);
    }
    add(one, cause);
  }
  std::stable_sort(causes.begin(), causes.end(), [](const auto& a, const auto& b) {
    return std::tie(b.seconds, b.count) < std::tie(a.seconds, a.count);
  });
  return causes;
}

}  // namespace monograph::diagnose
