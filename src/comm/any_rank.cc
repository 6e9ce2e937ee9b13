#include "comm/any_rank.h"

namespace monograph::comm {

bool any_rank(Communicator& group, bool says, std::string_view label) {
  int32_t word = says ? 1 : 0;
  group.all_reduce(&word, 1, ElementType::kI32, ReduceOp::kMax, label);
  return word != 0;
}

}  // namespace monograph::comm
