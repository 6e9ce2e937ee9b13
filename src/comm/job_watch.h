#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/flight_recorder.h"
#include "comm/store.h"

namespace monograph::comm {

// What one rank of the world answered, or that it did not.
struct RankReport {
  enum class State {
    kAlive,
    kSilent,     // no answer: stopped, swapped out, or its host cannot be reached
    kGone,       // its process ended, or its connection broke
    kLeft,       // it said that it is done
    kNeverCame,  // it never joined
  };
  State state = State::kAlive;
  std::optional<Progress> progress;  // in the group asked about
};

// Why a job stops. The first one holds for all ranks.
struct Failure {
  std::vector<int> at_fault;  // of the world
  std::string reason;         // "rank 2 is gone: its process ended"
};

// What a backend noticed when a call did not end well.
struct Trouble {
  std::string what;
  std::vector<int> suspects;  // of the world
  bool is_mismatch = false;   // the ranks called different things
  bool is_broken = false;     // a connection ended, before the timeout
};

// Names the ranks at fault for a call that did not end, from the reports of all ranks of the world.
Failure judge(const Group& group, const Call& call, const Trouble& trouble,
              const std::vector<RankReport>& reports);

// Sees all ranks of a job, beside their collectives. Calls may come from any thread.
class JobWatch {
 public:
  virtual ~JobWatch() = default;
  // Cheap: asked while waiting. True once any rank failed, or this one lost contact with the job.
  virtual bool has_failed() const = 0;
  // Cheap. True if the rank said that it is done with the job.
  virtual bool has_left(int world_rank) const = 0;
  // A call did not end well: asks all ranks how far they are, makes what judge() says the job's
  // first failure unless there is one, tells all ranks, and returns the first. Takes no longer than
  // grace_of(the timeout of a call).
  virtual Failure settle(const Group& group, const Call& call, const Trouble& trouble) = 0;
  // Keeps what others would miss until this rank has said why it leaves.
  virtual void keep(std::shared_ptr<void> connections) = 0;
};

// The part of a call's timeout that it keeps for asking the other ranks, so that its error is there
// in time.
Milliseconds grace_of(Milliseconds timeout);

}  // namespace monograph::comm
