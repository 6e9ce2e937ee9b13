#pragma once

#include "comm/communicator.h"
#include "ir/link_model.h"

namespace monograph::runtime {

// Times all-reduces of one element and of 4 MB on the group, the median of a few each; takes some
// 20 ms. All ranks of the group call it; what they measure differs a little.
ir::LinkModel measure_link(comm::Communicator& communicator);

}  // namespace monograph::runtime
