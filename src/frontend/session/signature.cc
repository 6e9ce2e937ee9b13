#include "frontend/session/signature.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace monograph::session {
namespace {

std::string input_reason(const std::string& name, const ir::TensorType& expected,
                         const ir::TensorType& given) {
  const auto reason = [&](const std::string& what, const std::string& advice) {
    return fmt::format("input '{}' {}: expected {}, got {}: {}", name, what, expected.str(),
                       given.str(), advice);
  };
  if (expected.dtype != given.dtype) {
    return reason("dtype",
                  fmt::format("cast it to {} before the call", ir::dtype_name(expected.dtype)));
  }
  if (expected.shape.rank() != given.shape.rank()) {
    return reason("rank", "give it one rank, or compile two functions");
  }
  int axis = 0;
  while (expected.shape[axis] == given.shape[axis]) ++axis;
  return reason(fmt::format("dim {}", axis),
                "pad it, or leave out a short last batch, if this comes often");
}

std::vector<std::string> reasons(const Signature& known, const std::vector<ir::TensorType>& types,
                                 const std::vector<std::string>& input_names) {
  std::vector<std::string> all;
  for (size_t i = 0; i < types.size(); ++i) {
    if (known.inputs[i] == types[i]) continue;
    all.push_back(input_reason(input_names[i], known.inputs[i], types[i]));
  }
  for (const trace::Trace::Switch& each : known.switches) {
    if (*each.flag == each.value) continue;
    all.push_back(fmt::format("{}: expected {}, got {}: use one compiled function for each",
                              each.what, each.value, !each.value));
  }
  return all;
}

}  // namespace

bool Signature::serves(const std::vector<ir::TensorType>& types) const {
  return types == inputs && std::all_of(switches.begin(), switches.end(),
                                        [](const auto& each) { return *each.flag == each.value; });
}

std::string recompile_reason(const std::vector<const Signature*>& known,
                             const std::vector<ir::TensorType>& types,
                             const std::vector<std::string>& input_names) {
  std::vector<std::string> fewest;
  for (const Signature* each : known) {
    std::vector<std::string> all = reasons(*each, types, input_names);
    if (fewest.empty() || all.size() < fewest.size()) fewest = std::move(all);
  }
  return fmt::format("{}", fmt::join(fewest, "; "));
}

std::string read_reason(const trace::HostRead& read, double expected, double given) {
  return fmt::format("{} at {}:{}{}{}: expected {}, got {}: {}", read.reason(), read.place.file,
                     read.place.line, read.place.scope.empty() ? "" : " in ", read.place.scope,
                     expected, given, read.advice());
}

}  // namespace monograph::session
