#include "frontend/nn/optim/flat.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "frontend/trace/functions.h"

namespace monograph::optim {
namespace {

constexpr int64_t kAlignment = ir::kFlatAlignment;

bool decays(const trace::Parameter& parameter) {
  return parameter.shape().rank() >= 2;
}

int64_t padded(int64_t count) {
  return (count + kAlignment - 1) / kAlignment * kAlignment;
}

// The unit's own axis first: what is left to reduce over others is a part.
std::vector<trace::Gradients::MeanOver> means_of(const ir::FlatUnit& unit,
                                                 const trace::Gradients& gradients) {
  auto means = gradients.means_of_units();
  const auto own = std::find_if(means.begin(), means.end(),
                                [&](const auto& mean) { return mean.axis == unit.axis; });
  if (own == means.end()) {
    throw_user_error(
        "unit '{}' is sharded over axis '{}', but its gradients are not reduced over it: use "
        "optimizer.step(nn::replicate(loss.backward(), mesh, \"{}\"))",
        unit.name, unit.axis, unit.axis);
  }
  std::rotate(means.begin(), own, own + 1);
  return means;
}

void check_whole(const ir::FlatUnit& unit, const std::vector<trace::Parameter>& parameters,
                 const trace::Gradients& gradients) {
  for (const ir::FlatUnit::Member& member : unit.members) {
    const auto is_it = [&](const trace::Parameter& each) { return each.name() == member.name; };
    const auto found = std::find_if(parameters.begin(), parameters.end(), is_it);
    if (found != parameters.end() && gradients.contains(*found)) continue;
    throw_user_error(
        "parameter '{}' of sharded unit '{}' {}: freeze it before fully_shard, so that it is in no "
        "unit",
        member.name, unit.name,
        found == parameters.end() ? "is not the optimizer's" : "has no gradient");
  }
}

}  // namespace

FlatRange::FlatRange(const std::vector<trace::Parameter>& parameters,
                     const trace::Gradients& gradients)
    : trace_(gradients.trace()) {
  for (const trace::Parameter& parameter : in_order(parameters)) {
    if (!gradients.contains(parameter)) continue;
    if (parameter.type().dtype != ir::DType::kF32) {
      throw_user_error("optimizer: parameter '{}' is {}: only f32 parameters are supported",
                       parameter.name(), parameter.type().str());
    }
    parameters_.push_back(parameter);
    gradients_.push_back(gradients[parameter]);
    num_elements_ += padded(parameter.type().num_elements());
    if (decays(parameter)) num_decay_elements_ = num_elements_;
  }
  if (parameters_.empty()) {
    throw_user_error(
        "optimizer: none of its {} parameters has a gradient: are they those of the "
        "model that made the loss, and not frozen?",
        parameters.size());
  }
  const auto& unit = parameters_.front().flat_unit();
  if (unit != nullptr) means_ = means_of(*unit, gradients);
}

std::string FlatRange::group_of(const trace::Parameter& parameter) {
  std::string unit = parameter.flat_unit() == nullptr ? "" : parameter.flat_unit()->name;
  if (parameter.pipeline() != nullptr) {
    unit += fmt::format("@{}", fmt::join(parameter.pipeline_ranks(), ","));
  }
  if (!parameter.tensor_shard()) return unit;
  return fmt::format("{} {} {}", unit, parameter.tensor_shard()->axis, decays(parameter));
}

std::vector<trace::Parameter> FlatRange::in_order(const std::vector<trace::Parameter>& parameters) {
  std::vector<trace::Parameter> ordered;
  for (const bool with_decay : {true, false}) {
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      if (decays(*parameter) == with_decay) ordered.push_back(*parameter);
    }
  }
  return ordered;
}

std::vector<FlatRange> FlatRange::all(const std::vector<trace::Parameter>& parameters,
                                      const trace::Gradients& gradients) {
  std::vector<std::pair<std::string, std::vector<trace::Parameter>>> groups;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const std::string name = group_of(*parameter);
    const auto is_its = [&](const auto& group) { return group.first == name; };
    auto group = std::find_if(groups.begin(), groups.end(), is_its);
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.insert(group->second.begin(), *parameter);
  }
  // Sums over divided parameters are completed once, then those of the others are added.
  std::stable_partition(groups.begin(), groups.end(), [](const auto& group) {
    return group.second[0].tensor_shard().has_value();
  });
  std::vector<FlatRange> ranges;
  for (const auto& [name, members] : groups) {
    const auto& unit = members[0].flat_unit();
    if (unit != nullptr) check_whole(*unit, members, gradients);
    const bool has_gradients =
        std::any_of(members.begin(), members.end(),
                    [&](const trace::Parameter& each) { return gradients.contains(each); });
    if (has_gradients || groups.size() == 1) ranges.emplace_back(members, gradients);
  }
  if (ranges.empty()) return {FlatRange(parameters, gradients)};  // says what is wrong
  return ranges;
}

trace::Tensor FlatRange::pack(const std::vector<trace::Tensor>& tensors) const {
  return trace::emit("pack", {tensors.begin(), tensors.end()}, {{"alignment", kAlignment}});
}

trace::Tensor FlatRange::pack_gradients() const {
  trace::Tensor flat = pack(gradients_);
  double factor = 1;
  for (const auto& mean : means_) {
    const std::string& unit = parameters_.front().flat_unit()->name;
    ir::Attributes attributes = {
        {"axis", mean.axis}, {"size", mean.size}, {"op", std::string("sum")}, {"unit", unit}};
    const ops::Compression& compression = mean.compression;
    if (compression.is_on() && num_decay_elements_ >= compression.min_elements) {
      attributes["compress"] = compression.str();
      attributes["gradient"] = unit;
    }
    flat = trace::emit("all_reduce", {flat}, std::move(attributes));
    factor /= static_cast<double>(mean.size);
  }
  return factor == 1 ? flat : flat * factor;
}

trace::Tensor FlatRange::pack_states(const std::vector<trace::State>& states) const {
  std::vector<trace::Tensor> values;
  for (const trace::State& state : states) values.push_back(trace_.read(state));
  return pack(values);
}

void FlatRange::update(const std::vector<trace::State>& states, const trace::Tensor& flat) const {
  std::vector<ir::Shape> shapes;
  for (const trace::State& state : states) shapes.push_back(state.shape());
  const std::vector<trace::Tensor> parts =
      trace::emit_all("unpack", {flat}, {{"shapes", shapes}, {"alignment", kAlignment}});
  for (size_t i = 0; i < states.size(); ++i) trace_.update(states[i], parts[i]);
}

}  // namespace monograph::optim
