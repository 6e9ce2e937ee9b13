#pragma once

#include <sys/types.h>

#include <vector>

#include "comm/store/socket.h"

namespace monograph::launch {

// A small process that outlives this one by a moment: when this process ends without saying so, it
// kills the process groups that it was told of, with all that the ranks started themselves.
class Guardian {
 public:
  Guardian();   // before any other thread is started
  ~Guardian();  // says that all is well
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group);
  void forget(pid_t group);  // it has ended: its number may be taken again

 private:
  comm::Socket pipe_;
  pid_t pid_ = -1;
};

}  // namespace monograph::launch
