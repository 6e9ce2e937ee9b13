#include "frontend/trace/control_flow.h"

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::trace {
namespace {

constexpr int64_t kMostTrips = 4096;

[[noreturn]] void refuse(const Location& where, const std::string& message) {
  throw_user_error("{}\n  at {}:{}", message, where.file_name(), where.line());
}

// The predicate as a scalar, which broadcasts against anything.
Tensor scalar_predicate(std::string_view op, const Tensor& predicate, const Location& where) {
  if (predicate.dtype() != ir::DType::kBool || predicate.type().num_elements() != 1) {
    refuse(where, fmt::format("[{}] the predicate is {}: give one bool, e.g. gt(sum(x), 0.0)", op,
                              predicate.type().str()));
  }
  return predicate.rank() == 0 ? predicate : predicate.reshape({}, where);
}

void check_same(std::string_view op, std::string_view what, const Tensors& expected,
                const Tensors& given, const Location& where) {
  if (expected.size() != given.size()) {
    refuse(where, fmt::format("[{}] {}: {} tensors against {}: give as many", op, what,
                              given.size(), expected.size()));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].type() == given[i].type()) continue;
    refuse(where, fmt::format("[{}] {}: tensor {} is {} against {}: cast or reshape it", op, what,
                              i, given[i].type().str(), expected[i].type().str()));
  }
}

Tensors select(const Tensor& predicate, const Tensors& a, const Tensors& b, const Location& where) {
  Tensors selected;
  for (size_t i = 0; i < a.size(); ++i) {
    selected.push_back(emit_at(where, "where", {predicate, a[i], b[i]}));
  }
  return selected;
}

}  // namespace

Tensors cond(const Tensor& predicate, const std::function<Tensors(const Tensors&)>& then,
             const std::function<Tensors(const Tensors&)>& otherwise, const Tensors& operands,
             Location where) {
  const Tensor holds = scalar_predicate("cond", predicate, where);
  const Tensors a = then(operands), b = otherwise(operands);
  check_same("cond", "the branches differ", a, b, where);
  return select(holds, a, b, where);
}

ScanStep scan(const std::function<ScanStep(const Tensors& carry, const Tensors& inputs)>& body,
              const Tensors& carry, const Tensors& inputs, Location where) {
  if (inputs.empty() || inputs[0].rank() == 0) {
    refuse(where, "[scan] no inputs with an axis to go along: give one or more");
  }
  const int64_t length = inputs[0].dim(0);
  for (const Tensor& each : inputs) {
    if (each.rank() > 0 && each.dim(0) == length) continue;
    refuse(where, fmt::format("[scan] inputs {} and {}: give equal lengths along axis 0",
                              inputs[0].type().str(), each.type().str()));
  }
  ScanStep result{carry, {}};
  std::vector<Tensors> stacked;
  for (int64_t i = 0; i < length; ++i) {
    Tensors now;
    for (const Tensor& each : inputs)
      now.push_back(each.slice(0, i, i + 1, where).squeeze(0, where));
    ScanStep step = body(result.carry, now);
    check_same("scan", "the carry changes", carry, step.carry, where);
    result.carry = std::move(step.carry);
    stacked.resize(step.outputs.size());
    for (size_t k = 0; k < stacked.size(); ++k) stacked[k].push_back(step.outputs[k]);
  }
  for (const Tensors& parts : stacked) result.outputs.push_back(stack(parts, 0, where));
  return result;
}

WhileResult while_loop(const std::function<Tensor(const Tensors&)>& condition,
                       const std::function<Tensors(const Tensors&)>& body, const Tensors& state,
                       int64_t max_trips, Location where) {
  if (max_trips < 1 || max_trips > kMostTrips) {
    refuse(where,
           fmt::format("[while_loop] max_trips {}: use 1 to {}; longer loops run on the host, "
                       "one step a trip",
                       max_trips, kMostTrips));
  }
  WhileResult result{state, {}};
  Tensor runs = scalar_predicate("while_loop", condition(state), where);
  for (int64_t trip = 0; trip < max_trips; ++trip) {
    const Tensors next = body(result.state);
    check_same("while_loop", "the state changes", state, next, where);
    result.state = select(runs, next, result.state, where);
    const Tensor goes_on = scalar_predicate("while_loop", condition(result.state), where);
    runs = emit_at(where, "logical_and", {runs, goes_on});
  }
  result.finished = emit_at(where, "logical_not", {runs});
  return result;
}

}  // namespace monograph::trace
