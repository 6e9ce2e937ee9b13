#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/compile/job.h"

// Why a compiler cache missed: the difference between the missed key's components and those of the
// most similar key that was known by then.
namespace monograph::diagnose {

enum class MissCause {
  kCold,      // nothing to compare with: the first compilation of its kind
  kGraph,     // another graph
  kInputs,    // the same graph, other input sizes, strides, dtypes or devices
  kSettings,  // the same graph and inputs, another configuration, version or environment
  kSameKey,   // the very key was missed, so compiled, before
  kUnknown,   // the log holds no components
};

struct ComponentChange {
  std::string name;    // "inductor_config[max_autotune]"
  std::string before;  // "absent" if the earlier key had none
  std::string after;
};

struct ExplainedMiss {
  int rank = -1;
  const CacheEvent* event = nullptr;
  std::string function;
  MissCause cause = MissCause::kUnknown;
  std::vector<ComponentChange> changes;  // what tells most first: settings, inputs, graph
};

std::vector<ExplainedMiss> explain_misses(const CompileJob& job);

std::string_view describe(MissCause cause);

// A lookup that missed on some ranks and hit on others.
struct CacheSplit {
  std::string cache;
  std::string function;
  std::string compile_id;  // on the missing ranks
  std::set<int> missed, hit;
  bool same_key = false;
  bool filled = false;  // those that missed may have filled the cache for the others
  std::vector<ComponentChange> changes;  // from a hitting rank's key to a missing one's
};

std::vector<CacheSplit> find_splits(const CompileJob& job);

// Why some missed, and what to do.
std::string explain_split(const CacheSplit& split);
std::string split_advice(const CacheSplit& split);

// "inductor_config[a], example_inputs[0] and 3 more"
std::string list_components(const std::vector<ComponentChange>& changes, std::size_t limit);

}  // namespace monograph::diagnose
