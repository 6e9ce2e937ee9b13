#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/hang/failure.h"
#include "diagnose/hang/stack_frame.h"

// What is known of how far each rank came in each process group, whatever kind of file said so.
// Every reader of hang evidence fills a Progress; find_hang() answers from it.
namespace monograph::diagnose {

enum class CallState { kScheduled, kStarted, kCompleted };

// One collective or point-to-point operation as one rank recorded it.
struct Call {
  std::string group;      // key of the group in Progress
  int64_t sequence = -1;  // number of the collective in its group; of the pair's call if is_p2p
  std::string op;         // lower case without library prefix: all_reduce, send
  bool is_p2p = false;
  int source = -1;  // global ranks of a point-to-point call; -1 is unknown or any
  int destination = -1;
  int64_t num_elements_in = -1;  // -1 is unknown
  int64_t num_elements_out = -1;
  std::string shape_in;  // as printed to people: [4096, 5120]
  std::string shape_out;
  std::string dtype;  // of the input, of the output if there is no input; empty is unknown
  CallState state = CallState::kScheduled;
  bool pending = false;    // neither completed nor given up by the rank that issued it
  bool timed_out = false;  // a watchdog said so
  int64_t created_ns = 0;  // unix time; 0 is unknown
  int64_t ran_ms = -1;     // until the watchdog gave up
  int64_t timeout_ms = -1;
  std::shared_ptr<const StackFrame> caller;  // where the user's code made the call; may be null
};

// Numbers of the last collectives of a group on one rank; -1 is unknown, 0 is none.
struct GroupStatus {
  int64_t enqueued = -1;
  int64_t started = -1;
  int64_t completed = -1;
};

struct RankProgress {
  std::map<std::string, GroupStatus> groups;
  std::vector<Call> calls;  // in the order of issue
  bool is_complete =
      false;           // a group or call absent here was never entered (a whole dump was read)
  std::string source;  // the file, for evidence
};

struct Group {
  std::string name;         // the name PyTorch gave it, or a communicator's hash
  std::string description;  // TENSOR_MODEL_PARALLEL_GROUP
  std::vector<int> ranks;   // global, sorted; empty if unknown
};

// Something a log states outright, kept beside what is inferred.
struct Claim {
  enum class Kind {
    kDidNotEnter,
    kMismatch,
    kUnreachable,
    kBehind,  // issued fewer collectives when asked; the job may have been running
    kNote,
  } kind = Kind::kNote;
  std::string group;
  std::vector<int> ranks;  // the ones it is about
  std::string text;        // a sentence for a person
  std::string line;        // the log line, shortened
};

struct Progress {
  std::map<std::string, Group> groups;
  std::map<int, RankProgress> ranks;
  std::set<int> ranks_seen;  // also ranks that only printed something
  int world_size = -1;
  bool is_snapshot = false;  // counts from one look at a job that may have been running
  std::vector<Claim> claims;
  std::vector<Failure> failures;  // in the order of the log
  int first_failed_rank = -1;     // as torchrun saw it
  std::vector<std::string> sources;

  bool empty() const { return ranks.empty() && claims.empty() && failures.empty(); }
};

// Key of a group: its name, and a hash of its ranks when known, since names repeat with different
// ranks. Short, because every call holds one.
std::string group_key(std::string_view name, const std::vector<int>& ranks);

// "TENSOR_MODEL_PARALLEL_GROUP (41)", for people.
std::string group_title(const Progress& progress, const std::string& key);

// all_reduce from "nccl:all_reduce", "ALLREDUCE", "AllReduce", "_allreduce_base": one spelling for
// every source.
std::string plain_op(std::string_view name);

// Adds what part knows to whole; calls and groups of the same rank are joined.
void merge_progress(Progress& whole, Progress&& part);

// Text logs know a group by name only; gives their calls the key of the one recorded group of that
// name that holds the rank.
void unify_groups(Progress& progress);

// "0, 2-5, 9": sorted ranks for people.
std::string rank_list(const std::vector<int>& ranks);
std::string rank_list(const std::set<int>& ranks);

}  // namespace monograph::diagnose
