#include "diagnose/compile/cache_misses.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "diagnose/compile/rank_comparison.h"

namespace monograph::diagnose {
namespace {

enum class Part { kSettings, kInputs, kGraph };

// What of the compilation a component describes.
Part part_of(std::string_view name) {
  if (name == "gm" || name.starts_with("graph") || name.starts_with("aot_config") ||
      name.starts_with("user_defined_triton")) {
    return Part::kGraph;
  }
  if (name.starts_with("example_inputs") || name.starts_with("inputs_to_check") ||
      name.find("static_input_idxs") != std::string_view::npos ||
      name.find("graph_id") != std::string_view::npos) {
    return Part::kInputs;
  }
  return Part::kSettings;
}

// Differs between ranks and runs without meaning: not a cause by itself.
bool is_noise(std::string_view name) {
  return name.find("graph_id") != std::string_view::npos;
}

using Components = std::vector<std::shared_ptr<const CacheComponent>>;

std::vector<ComponentChange> difference(const Components& before, const Components& after) {
  std::unordered_map<std::string_view, const CacheComponent*> old;
  for (const auto& component : before) old[component->name] = component.get();
  std::vector<ComponentChange> changes;
  for (const auto& component : after) {
    const auto found = old.find(component->name);
    if (found == old.end()) {
      changes.push_back({component->name, "absent", component->value});
      continue;
    }
    if (found->second->hash != component->hash) {
      changes.push_back({component->name, found->second->value, component->value});
    }
    old.erase(found);
  }
  for (const auto& [name, component] : old) {
    changes.push_back({std::string(name), component->value, "absent"});
  }
  std::erase_if(changes, [](const ComponentChange& change) { return is_noise(change.name); });
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return std::make_pair(part_of(a.name), a.name) < std::make_pair(part_of(b.name), b.name);
  });
  return changes;
}

// The part of two long values around where they part.
void shorten(ComponentChange& change) {
  constexpr std::size_t kContext = 30, kShown = 90;
  std::size_t same = 0;
  while (same < change.before.size() && same < change.after.size() &&
         change.before[same] == change.after[same]) {
    ++same;
  }
  const std::size_t from = same > kContext ? same - kContext : 0;
  for (std::string* value : {&change.before, &change.after}) {
    std::string text = from > 0 && from < value->size() ? "..." + value->substr(from) : *value;
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    *value = std::move(text);
  }
}

MissCause cause_of(const std::vector<ComponentChange>& changes) {
  MissCause cause = MissCause::kSettings;
  for (const ComponentChange& change : changes) {
    const Part part = part_of(change.name);
    if (part == Part::kGraph) return MissCause::kGraph;
    if (part == Part::kInputs) cause = MissCause::kInputs;
  }
  return cause;
}

// Whether a key was looked up before, so that its entry could have been there: earlier in the same
// log, or in one that had ended. Copies of a log and processes side by side prove nothing.
class Lookups {
 public:
  explicit Lookups(const CompileJob& job) {
    for (const CompileFacts* log : job.logs) {
      for (const CacheEvent& event : log->cache_events) logs_[&event] = log;
    }
  }

  bool came_before(const CacheEvent& earlier, const CacheEvent& miss) const {
    if (miss.key.empty() || earlier.key != miss.key) return false;
    if (&earlier == &miss) {
      return miss.count > 1 && (miss.stamp < 0 || miss.last_stamp > miss.stamp);
    }
    const CompileFacts* const log = logs_.at(&earlier);
    if (log == logs_.at(&miss)) return miss.stamp < 0 || earlier.stamp < miss.stamp;
    return miss.stamp >= 0 && log->last_stamp >= 0 && log->last_stamp < miss.stamp;
  }

 private:
  std::unordered_map<const CacheEvent*, const CompileFacts*> logs_;
};

}  // namespace

std::vector<ExplainedMiss> explain_misses(const CompileJob& job) {
  const FunctionNames names(job);
  const Lookups lookups(job);
  std::vector<ExplainedMiss> misses;
  // Earlier events of one rank and cache: another rank's are no reason for this one's entries.
  std::map<std::pair<int, std::string>, std::vector<const CacheEvent*>> earlier;
  for (const Ranked<CacheEvent>& record : job.prefer_structured(&CompileFacts::cache_events)) {
    const auto& [rank, event] = record;
    std::vector<const CacheEvent*>& known = earlier[{rank, event->cache}];
    if (event->state == CacheState::kMiss) {
      ExplainedMiss miss;
      miss.rank = rank;
      miss.event = event;
      miss.function = names.of(record).name;
      const CacheEvent* nearest = nullptr;
      std::vector<ComponentChange> best;
      bool again = lookups.came_before(*event, *event);
      for (const CacheEvent* other : known) {
        again = again || lookups.came_before(*other, *event);
        if (other->components.empty() || event->components.empty()) continue;
        std::vector<ComponentChange> changes = difference(other->components, event->components);
        if (nearest == nullptr || changes.size() <= best.size()) {
          nearest = other;
          best = std::move(changes);
        }
      }
      if (again) {
        miss.cause = MissCause::kSameKey;
      } else if (nearest != nullptr) {
        miss.changes = std::move(best);
        miss.cause = cause_of(miss.changes);
        for (ComponentChange& change : miss.changes) shorten(change);
      } else {
        miss.cause =
            event->components.empty() && !known.empty() ? MissCause::kUnknown : MissCause::kCold;
      }
      misses.push_back(std::move(miss));
    }
    if (event->state != CacheState::kBypass) known.push_back(event);
  }
  return misses;
}

std::vector<CacheSplit> find_splits(const CompileJob& job) {
  const FunctionNames names(job);
  std::map<std::pair<int, std::string>, double> ends;  // of compilations, unix time
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::compilations)) {
    if (value->finished && value->start > 0 && !value->is_backward) {
      ends[{rank, value->compile_id}] = value->start + value->seconds;
    }
  }
  // cache, function, how many lookups before -> by rank
  std::map<std::tuple<std::string, std::string, int>, std::map<int, const CacheEvent*>> aligned;
  std::map<std::tuple<int, std::string, std::string>, int> seen;
  for (const Ranked<CacheEvent>& record : job.prefer_structured(&CompileFacts::cache_events)) {
    const auto& [rank, event] = record;
    if (rank < 0 || event->state == CacheState::kBypass) continue;
    const CompiledFunction function = names.of(record);
    const std::string key = function.name + std::to_string(function.line);
    const int nth = seen[{rank, event->cache, key}]++;
    aligned[{event->cache, key, nth}][rank] = event;
  }
  std::vector<CacheSplit> splits;
  for (const auto& [key, by_rank] : aligned) {
    CacheSplit split;
    const CacheEvent *missed = nullptr, *hit = nullptr;
    for (const auto& [rank, event] : by_rank) {
      const bool is_hit = event->state == CacheState::kHit;
      (is_hit ? split.hit : split.missed).insert(rank);
      (is_hit ? hit : missed) = event;
    }
    if (missed == nullptr || hit == nullptr) continue;
    split.cache = missed->cache;
    split.compile_id = missed->compile_id;
    split.function = names.of(Ranked<CacheEvent>{*split.missed.begin(), missed}).name;
    split.same_key = !missed->key.empty() && missed->key == hit->key;
    // Who was served before the entry can have been written was served from elsewhere.
    split.filled = split.same_key;
    const auto written = ends.find({*split.missed.begin(), missed->compile_id});
    for (const int rank : split.hit) {
      const auto served = ends.find({rank, by_rank.at(rank)->compile_id});
      if (written != ends.end() && served != ends.end() && served->second < written->second) {
        split.filled = false;
      }
    }
    if (!missed->components.empty() && !hit->components.empty()) {
      split.changes = difference(hit->components, missed->components);
      for (ComponentChange& change : split.changes) shorten(change);
    }
    splits.push_back(std::move(split));
  }
  return splits;
}

std::string list_components(const std::vector<ComponentChange>& changes, std::size_t limit) {
  std::string text;
  for (std::size_t i = 0; i < changes.size() && i < limit; ++i) {
    text += (i > 0 ? ", " : "") + changes[i].name;
  }
  if (changes.size() > limit) text += fmt::format(" and {} more", changes.size() - limit);
  return text;
}

std::string explain_split(const CacheSplit& split) {
  if (split.filled) return "it filled the cache from which the others were served";
  if (split.same_key) return "the key is the same and the others were served: its cache was cold";
  if (split.changes.empty()) return "the keys differ; the log does not say in what";
  return "its cache key differs in: " + list_components(split.changes, 6);
}

std::string split_advice(const CacheSplit& split) {
  if (split.filled) return "nothing; a warm cache saves this time too";
  if (split.same_key) {
    return "point TORCHINDUCTOR_CACHE_DIR of all ranks at a folder that is kept between runs, or "
           "at "
           "one shared folder; a new or replaced host starts cold";
  }
  return "make what the key is made of the same on all ranks: versions, inductor configuration, "
         "environment, input sizes";
}

std::string_view describe(MissCause cause) {
  switch (cause) {
    case MissCause::kCold:
      return "first of its kind";
    case MissCause::kGraph:
      return "another graph";
    case MissCause::kInputs:
      return "other inputs";
    case MissCause::kSettings:
      return "other settings";
    case MissCause::kSameKey:
      return "missed again";
    case MissCause::kUnknown:
      return "not logged";
  }
  return "";
}

}  // namespace monograph::diagnose
