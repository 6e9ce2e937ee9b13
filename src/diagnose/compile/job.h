#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/compile/compile_log.h"
#include "diagnose/finding.h"
#include "diagnose/reader.h"

namespace monograph::diagnose {

// A record with the rank that it belongs to; -1: a job of one process, or unknown.
template <typename T>
struct Ranked {
  int rank = -1;
  const T* value = nullptr;
};

// The compiler logs of one folder, taken to be one job.
struct CompileJob {
  std::string folder;
  std::vector<const CompileFacts*> logs;
  std::vector<int> log_ranks;  // of each log
  std::set<int> ranks;         // all that occur, without -1

  // The rank of a record of log `i` that gives `rank`. Where the file's name was believed instead
  // of its content, records follow.
  int rank_of(std::size_t i, int rank) const {
    return rank < 0 || rank == logs[i]->rank ? log_ranks[i] : rank;
  }

  // The records of one kind in all logs. A process that was logged as text and as a trace says
  // everything twice: see `prefer_structured`.
  template <typename T>
  std::vector<Ranked<T>> all(std::vector<T> CompileFacts::*member) const {
    std::vector<Ranked<T>> found;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      for (const T& value : logs[i]->*member) {
        found.push_back({rank_of(i, value.rank), &value});
      }
    }
    return found;
  }

  // As all(), but of a rank with both kinds of log only what the structured one says, if it says
  // anything of this kind.
  template <typename T>
  std::vector<Ranked<T>> prefer_structured(std::vector<T> CompileFacts::*member) const {
    std::set<int> structured;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      if (!logs[i]->is_structured) continue;
      for (const T& value : logs[i]->*member) {
        structured.insert(rank_of(i, value.rank));
      }
    }
    std::vector<Ranked<T>> found;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      for (const T& value : logs[i]->*member) {
        const int rank = rank_of(i, value.rank);
        if (logs[i]->is_structured || !structured.contains(rank)) found.push_back({rank, &value});
      }
    }
    return found;
  }
};

// Groups logs by folder and settles ranks: what a record says, else its file, else the file's
// name; where several files claim one rank and their names tell them apart, the names win.
std::vector<CompileJob> gather_jobs(const FactsList& facts);

// "forward [0/1]"
std::string frame_label(const std::string& function, const std::string& compile_id);

// "forward (train.py:58)"; PyTorch's own wrappers tell nothing without the line that calls them:
// "inner (external_utils.py:66, called at train.py:141)".
std::string function_label(const CompiledFunction& function);

// Points the finding at the function's code, or at what calls a wrapper.
void set_place(Finding& finding, const CompiledFunction& function);

// Ranks of a set, without -1, ascending.
std::vector<int> known_ranks(const std::set<int>& ranks);

// All that the compiler logs of a job say: the one conclusion registered for them.
void conclude_compile(const FactsList& facts, Report& report);

void conclude_breaks(const CompileJob& job, Report& report);
void conclude_recompiles(const CompileJob& job, Report& report);
void conclude_failures(const CompileJob& job, Report& report);
void conclude_fusion(const CompileJob& job, Report& report);
void conclude_times(const CompileJob& job, Report& report);
void conclude_cache(const CompileJob& job, Report& report);
void conclude_health(const CompileJob& job, Report& report);

}  // namespace monograph::diagnose
