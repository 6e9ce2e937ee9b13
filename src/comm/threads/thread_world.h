#pragma once

#include <functional>

#include "comm/world.h"

namespace monograph::comm {

struct ThreadWorldOptions {
  Milliseconds timeout{60'000};  // of one collective
};

// Runs body(world) as `size` ranks, each a thread of this process, and waits for all. When a body
// throws, the other ranks' collectives end with CommError; what was thrown first is thrown here.
void run_ranks(int size, const std::function<void(World&)>& body, ThreadWorldOptions options = {});

// A world of this process alone.
std::unique_ptr<World> make_single_world();

}  // namespace monograph::comm
