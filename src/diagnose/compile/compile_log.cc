#include "diagnose/compile/compile_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace monograph::diagnose {
namespace {

// Beyond these many different entries of one kind only those known already are counted.
constexpr std::size_t kMaxDifferent = 200'000;

// Text of graphs that one file may add to what is kept for comparing ranks.
constexpr std::size_t kMaxGraphBytes = std::size_t{64} << 20;

}  // namespace

template <typename T>
bool CompileLogBuilder::count_again(std::vector<T>& all, const std::string& key) {
  const auto [found, is_new] = known_.try_emplace(key, all.size());
  if (is_new && all.size() < kMaxDifferent) return false;
  if (is_new) {
    known_.erase(found);
    return true;
  }
  ++all[found->second].count;
  return true;
}

void CompileLogBuilder::add(GraphBreak value) {
  const std::string key =
      fmt::format("B{}|{}|{}|{}", value.rank, value.file, value.line, value.reason);
  if (!count_again(facts_->breaks, key)) {
    facts_->breaks.push_back(std::move(value));
    return;
  }
  // Repeats are logged without their stack, and a torn first message may have lacked it.
  const auto found = known_.find(key);
  if (found == known_.end()) return;
  GraphBreak& known = facts_->breaks[found->second];
  if (known.stack.empty()) known.stack = std::move(value.stack);
  if (known.hints.empty()) known.hints = std::move(value.hints);
}

void CompileLogBuilder::add(Recompile value) {
  std::string key = fmt::format("R{}|{}|{}:{}", value.rank, value.compile_id, value.function.file,
                                value.function.line);
  for (const GuardFailure& failure : value.failures) key += "|" + failure.entry + failure.text;
  if (!count_again(facts_->recompiles, key)) facts_->recompiles.push_back(std::move(value));
}

void CompileLogBuilder::add(LimitHit value) {
  const std::string key = fmt::format("L{}|{}|{}:{}", value.rank, value.option, value.function.file,
                                      value.function.line);
  if (!count_again(facts_->limit_hits, key)) facts_->limit_hits.push_back(std::move(value));
}

void CompileLogBuilder::add(CacheEvent value) {
  const std::string key =
      fmt::format("C{}|{}|{}|{}|{}|{}", value.rank, value.compile_id, value.cache,
                  static_cast<int>(value.state), value.key, value.reason);
  value.last_stamp = value.stamp;
  if (!count_again(facts_->cache_events, key)) {
    facts_->cache_events.push_back(std::move(value));
    return;
  }
  const auto found = known_.find(key);
  if (found == known_.end()) return;
  CacheEvent& known = facts_->cache_events[found->second];
  known.last_stamp = std::max(known.last_stamp, value.stamp);
  if (known.components.empty()) known.components = std::move(value.components);
}

void CompileLogBuilder::add(FusionCount value) {
  const std::string key =
      fmt::format("F{}|{}|{}|{}", value.rank, value.compile_id, value.before, value.after);
  if (!count_again(facts_->fusions, key)) facts_->fusions.push_back(std::move(value));
}

void CompileLogBuilder::add_hint(CompilerHint value) {
  const std::string key = fmt::format("H{}|{}", value.rank, value.text);
  if (!count_again(facts_->hints, key)) facts_->hints.push_back(std::move(value));
}

void CompileLogBuilder::add_cudagraph_skip(CompilerHint value) {
  const std::string key = fmt::format("S{}|{}", value.rank, value.text);
  if (!count_again(facts_->cudagraph_skips, key)) {
    facts_->cudagraph_skips.push_back(std::move(value));
  }
}

void CompileLogBuilder::add_graph(GraphText graph, std::string text) {
  if (facts_->graphs.size() >= kMaxDifferent) return;
  std::shared_ptr<const std::string>& shared = texts_[std::hash<std::string>{}(text)];
  if (!shared || *shared != text) {
    if (graph_bytes_ + text.size() > kMaxGraphBytes) {
      ++facts_->num_graphs_left_out;
      return;
    }
    graph_bytes_ += text.size();
    shared = std::make_shared<const std::string>(std::move(text));
  }
  graph.text = shared;
  facts_->graphs.push_back(std::move(graph));
}

void CompileLogBuilder::add(CollectiveSchedule value) {
  if (facts_->schedules.size() < kMaxDifferent) facts_->schedules.push_back(std::move(value));
}

std::shared_ptr<const CacheComponent> CompileLogBuilder::component(CacheComponent value) {
  std::shared_ptr<const CacheComponent>& shared = components_[value.name + "\n" + value.hash];
  if (!shared) shared = std::make_shared<const CacheComponent>(std::move(value));
  return shared;
}

}  // namespace monograph::diagnose
