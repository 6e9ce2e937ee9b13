#include "passes/pass.h"

#include <fmt/format.h>

namespace monograph::passes {

void PassContext::remark(const ir::Node& node, std::string reason, std::string_view cause) {
  const std::string& scope = node.provenance().scope;
  remarks_.push_back(
      {pass_, fmt::format("%{} = {}{}{}", node.id(), node.op(), scope.empty() ? "" : " in ", scope),
       std::move(reason), std::string(cause)});
}

}  // namespace monograph::passes
