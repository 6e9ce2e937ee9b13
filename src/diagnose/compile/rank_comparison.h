#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diagnose/compile/graph_text.h"
#include "diagnose/compile/job.h"

// What ranks of one job compiled and will run, compared.
namespace monograph::diagnose {

// One compiled graph of a rank.
struct RankGraph {
  std::string compile_id;
  std::shared_ptr<const NormalGraph> graph;
};

// Ranks that agree.
template <typename T>
struct Cluster {
  std::set<int> ranks;
  T value;
};

// The graphs of one function at one stage, by rank.
struct FunctionGraphs {
  CompiledFunction function;
  std::string stage;
  std::map<int, std::vector<RankGraph>> by_rank;
};

// In the order: earliest stage first. Of each rank the log that says more, if it was logged twice.
std::vector<FunctionGraphs> graphs_by_function(const CompileJob& job);

// Which function a compile id stands for on each rank.
class FunctionNames {
 public:
  explicit FunctionNames(const CompileJob& job);
  CompiledFunction of(int rank, const std::string& compile_id) const;

  // Of a record: as it was known when the record was written, else by its id.
  template <typename T>
  CompiledFunction of(const Ranked<T>& record) const {
    return record.value->function.name.empty() ? of(record.rank, record.value->compile_id)
                                               : record.value->function;
  }

 private:
  std::map<std::pair<int, std::string>, CompiledFunction> functions_;
};

// Findings about graphs, schedules of collectives and the order of execution that differ.
void conclude_ranks(const CompileJob& job, Report& report);

}  // namespace monograph::diagnose
