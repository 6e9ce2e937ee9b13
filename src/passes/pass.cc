#include "passes/pass.h"

#include <fmt/format.h>

#include "ops/collective/collective.h"

namespace monograph::passes {

void PassContext::remark(const ir::Node& node, std::string reason, std::string_view cause) {
  const std::string& scope = node.provenance().scope;
  remarks_.push_back(
      {pass_, fmt::format("%{} = {}{}{}", node.id(), node.op(), scope.empty() ? "" : " in ", scope),
       std::move(reason), std::string(cause)});
}

void PassContext::leave_out(const ir::Node& collective, std::string reason,
                            std::optional<int64_t> bytes) {
  const int64_t num_bytes = bytes.value_or(ops::collective_step(collective).num_bytes());
  remark(collective, fmt::format("{} bytes are not sent: {}", num_bytes, reason));
  ++left_out_.num_collectives;
  left_out_.bytes += num_bytes;
}

}  // namespace monograph::passes
