#include "frontend/session/variant.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "frontend/session/build_events.h"

namespace monograph::session {
namespace {

bool is_same_number(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

void Compiled::Variant::report_fallback(EventLog& events) {
  has_told_fallback_.resize(parts.size());
  has_told_swap_.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Build* const build = parts[i].executable->build();
    if (build == nullptr || build->fallback.cause.empty()) continue;
    if (!has_told_fallback_[i]) write_fallback(events, frame_key, record.hash, build->fallback);
    has_told_fallback_[i] = true;
    if (has_told_swap_[i] || build->fallback.swapped_after_ns < 0) continue;
    write_swap_in(events, frame_key, record.hash, build->fallback);
    has_told_swap_[i] = true;
  }
}

size_t Compiled::Variant::first_difference(const Journal& journal) const {
  const size_t count = std::min(journal.size(), numbers.size());
  for (size_t i = 0; i < count; ++i) {
    if (!is_same_number(journal[i].number, numbers[i].number)) return i;
  }
  return count;
}

bool Compiled::Variant::follows(const Journal& journal) const {
  return first_difference(journal) == journal.size();
}

std::vector<ir::Literal> Compiled::Variant::run_part(Part& part,
                                                     const runtime::InputMap& values) const {
  runtime::InputMap inputs;
  for (const ir::Node* input : part.segment.graph->inputs()) {
    inputs[input->name()] = values.at(input->name());
  }
  return part.executable->run(inputs);
}

std::optional<std::vector<ir::Literal>> Compiled::Variant::run(const runtime::InputMap& inputs,
                                                               Journal& journal,
                                                               const NumberCheck& check) {
  if (reads.empty()) return parts[0].executable->run(inputs);
  runtime::InputMap values = inputs;
  for (size_t i = 0; i < reads.size(); ++i) {
    std::vector<ir::Literal> outputs = run_part(parts[i], values);
    const size_t num_read = parts[i].segment.read.size();
    const size_t num_crossing = outputs.size() - num_read;
    if (i == journal.size()) {
      journal.push_back(trace::perform(reads[i], std::span(outputs).subspan(num_crossing)));
      check(reads[i], journal[i].number);
      if (!is_same_number(journal[i].number, numbers[i].number)) return std::nullopt;
    }
    const auto& names = parts[i].segment.graph->outputs();
    for (size_t k = 0; k < num_crossing; ++k) values[names[k].name] = std::move(outputs[k]);
    for (size_t k = 0; k < reads[i].results.size(); ++k) {
      values[reads[i].results[k]->name()] = journal[i].literals[k];
    }
  }
  return run_part(parts.back(), values);
}

}  // namespace monograph::session
