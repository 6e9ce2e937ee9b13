#include "frontend/nn/module.h"

#include "base/error.h"

namespace monograph::nn {

Module::Module(Module& owner, std::string_view name) : path_(owner.full_name(name)) {
  if (name.empty()) throw_user_error("a part of module '{}' has no name: give one", owner.path_);
  for (const Module* part : owner.parts_) {
    if (part->path_ == path_) {
      throw_user_error("module '{}' has two parts named '{}': rename one", owner.path_, name);
    }
  }
  owner.parts_.push_back(this);
}

std::string Module::full_name(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

Parameter Module::add_parameter(std::string_view name, ir::Shape shape, Initializer initializer) {
  states_.emplace_back(full_name(name), ir::TensorType{ir::DType::kF32, std::move(shape)},
                       ir::StateRole::kParameter, initializer);
  return states_.back();
}

State Module::add_buffer(std::string_view name, ir::Shape shape, Initializer initializer) {
  states_.emplace_back(full_name(name), ir::TensorType{ir::DType::kF32, std::move(shape)},
                       ir::StateRole::kBuffer, initializer);
  return states_.back();
}

void Module::collect(ir::StateRole role, std::vector<State>& states) const {
  for (const State& state : states_) {
    if (state.role() == role) states.push_back(state);
  }
  for (const Module* part : parts_) part->collect(role, states);
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> parameters;
  collect(ir::StateRole::kParameter, parameters);
  return parameters;
}

std::vector<State> Module::buffers() const {
  std::vector<State> buffers;
  collect(ir::StateRole::kBuffer, buffers);
  return buffers;
}

Parameter Module::parameter(std::string_view name) const {
  std::string names;
  for (const Parameter& parameter : parameters()) {
    if (parameter.name() == name) return parameter;
    names += (names.empty() ? "" : ", ") + parameter.name();
  }
  throw_user_error("no parameter '{}': the model has {}", name, names);
}

int64_t Module::num_parameters() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters()) count += parameter.type().num_elements();
  return count;
}

void Module::train(bool is_training) {
  *is_training_ = is_training;
  for (Module* part : parts_) part->train(is_training);
}

void Module::freeze(bool is_frozen) {
  for (Parameter parameter : parameters()) parameter.freeze(is_frozen);
}

}  // namespace monograph::nn
