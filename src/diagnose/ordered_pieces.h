#pragma once

#include <functional>
#include <vector>

// One stream, read by several threads with the result of one.
namespace monograph::diagnose {

// What is done to the pieces of a stream. `slot` numbers the threads: each keeps the piece it holds
// in a slot of its own.
struct PieceWork {
  // Fills the slot with the next piece; false at the end. Never called by two threads at once.
  std::function<bool(unsigned slot)> take;
  // What needs no knowledge of other pieces; several run at the same time.
  std::function<void(unsigned slot)> work;
  // Each stage sees one piece after another, in the order they were taken. A piece goes through the
  // stages one by one, so different stages work at the same time on different pieces.
  std::vector<std::function<void(unsigned slot)>> stages;
};

// Returns when all pieces went through all stages; at most `num_threads` pieces are held. The first
// exception ends it and is thrown here. With one thread everything runs in the caller's.
void run_in_order(const PieceWork& work, unsigned num_threads);

}  // namespace monograph::diagnose
