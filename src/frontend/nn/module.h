#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/trace/functions.h"
#include "frontend/trace/state.h"
#include "frontend/trace/trace.h"

namespace monograph::nn {

using trace::Initializer;
using trace::Location;
using trace::Parameter;
using trace::State;
using trace::Tensor;
using trace::TensorArgument;

// A part of a model: owns parameters, knows its path in the model ("h.0.attn") and its parts. Parts
// are members, made with their owner and their name in it:
//
//   struct Net : nn::Module {
//     nn::Linear fc1{*this, "fc1", 64, 128};
//     nn::Linear fc2{*this, "fc2", 128, 10};
//     Tensor operator()(const Tensor& x) const { return fc2(relu(fc1(x))); }
//   };
//
// Neither copied nor moved: its owner points to it.
class Module {
 public:
  Module() = default;
  Module(Module& owner, std::string_view name);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const { return path_; }
  // Own ones first, then those of the parts, in order of declaration.
  std::vector<Parameter> parameters() const;
  std::vector<State> buffers() const;
  // The parameter of that full name; UserError when there is none.
  Parameter parameter(std::string_view name) const;
  int64_t num_parameters() const;  // elements in all

  // Training mode decides about dropout and batch statistics. Of this module and all parts.
  void train(bool is_training = true);
  void eval() { train(false); }
  void freeze(bool is_frozen = true);

 protected:
  Parameter add_parameter(std::string_view name, ir::Shape shape, Initializer initializer);
  State add_buffer(std::string_view name, ir::Shape shape, Initializer initializer);
  // New nodes carry this module's path while the result lives. First line of operator().
  trace::Scope enter(const Tensor& x) const { return {x.trace(), path_}; }
  bool is_training(trace::Trace& trace) const {
    return trace.read_switch(is_training_, "training mode of '" + path_ + "'");
  }

 private:
  std::string full_name(std::string_view name) const;
  void collect(ir::StateRole role, std::vector<State>& states) const;

  std::string path_;
  std::vector<Module*> parts_;
  std::vector<State> states_;
  std::shared_ptr<bool> is_training_ = std::make_shared<bool>(true);
};

}  // namespace monograph::nn
