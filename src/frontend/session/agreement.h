#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/store.h"
#include "ir/graph.h"

namespace monograph::session {

// What must be equal on all ranks before a step runs on them.
struct Statement {
  // "graph hash", "option precision", "g++", ... with their values; the same names in the same
  // order on all ranks.
  std::vector<std::pair<std::string, std::string>> facts;
  // The step's collectives as they run, in order: "all_reduce over dp of 2: 4096 f32 sum".
  std::vector<std::string> collectives = {};
  std::string graph;  // its text, to show where graphs differ

  std::string digest() const;  // of the facts and collectives
};

// Compares the statements of all ranks. Digests go up a binary tree over the store and the verdict
// comes back: depth O(log size), a constant number of messages a rank; graphs are sent only where
// they differ. `what` names the step. UserError on all ranks when
// statements differ: it names the ranks of each side, the facts, the first collective and the first
// node that differ.
// CommError when a rank has not made its statement within the timeout.
void agree(comm::Store& store, int rank, int size, const std::string& what,
           const Statement& statement, comm::Milliseconds timeout);
// The same among some ranks, ascending, `rank` among them. All ranks of the job call it for theirs.
void agree(comm::Store& store, int rank, std::span<const int> ranks, const std::string& what,
           const Statement& statement, comm::Milliseconds timeout);

// What each of a few ranks says, in the order of `ranks`: one speaks for each of them, and every
// rank of the job reads all. CommError, naming the speaker, when it has not spoken within the
// timeout.
std::vector<std::string> hear_all(comm::Store& store, int rank, std::span<const int> speakers,
                                  const std::string& what, const std::string& word,
                                  comm::Milliseconds timeout);

// A word that some ranks say, and who: "ranks 0, 2"; nobody is named where all say the same.
struct Word {
  std::string text, ranks = {};
};
// The words that the ranks say, each once: one word where all say the same. Over the same tree; all
// ranks call it in the same order. CommError as agree().
std::vector<Word> distinct_words(comm::Store& store, int rank, int size, const std::string& what,
                                 const std::string& word, comm::Milliseconds timeout);

}  // namespace monograph::session
