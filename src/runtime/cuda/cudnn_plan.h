#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cudnn.h"

namespace monograph::runtime {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

// A graph of cuDNN with its plans; serves every step of the same sizes and strides.
struct CudnnPlan {
  fe::graph::Graph graph;
  cudnnHandle_t handle = nullptr;
  std::vector<fe::HeurMode_t> sources = {fe::HeurMode_t::A};  // of candidates
  // Not taken: results that differ from run to run.
  std::vector<fe::NumericalNote_t> excluded = {fe::NumericalNote_t::NONDETERMINISTIC};
  bool is_searched = true;  // else cuDNN's own choice is taken
  std::string refusal;      // why there is no plan; empty: there is
  int64_t workspace_bytes = 0;
  std::vector<int64_t> candidates;  // of a search that is still to come: built, and not too greedy
  std::optional<int64_t> chosen;    // by a search

  // Of the graph; sets `refusal`.
  void build(bool all);
};

}  // namespace monograph::runtime
