#pragma once

#include <string>
#include <vector>

#include "frontend/session/session.h"
#include "verify/divergence.h"
#include "verify/float64.h"

namespace monograph::verify {

// What is validated: a training step, and the same model's loss and gradients alone.
struct Subject {
  session::TracedFunction step;       // forward, loss, backward, optimizer; the loss first
  session::TracedFunction gradients;  // the loss, then "grad.NAME" of each trainable parameter
  std::vector<ir::Literal> inputs;
  session::CompileOptions options;
  int64_t seed = 1;
};

// One line of the verdict.
struct Check {
  std::string name;  // structure, backward, numerics, ...
  bool passed = false;
  std::string finding;  // what was checked and what came out
  std::vector<std::string> failures;
  int64_t ns = 0;
};

// V2: a trainable parameter, its gradient, and where the step reads it first and last (node numbers
// of the traced graph, module path).
struct ParameterRow {
  std::string name;
  ir::TensorType type;
  std::string gradient;                       // its type; empty: it has none
  std::string placement, gradient_placement;  // device:segment
  int first_use = -1, last_use = -1;
  std::string first_scope, last_scope;
};

// V7: on which device a tensor of the step should lie, and lies after a step.
struct PlacementRow {
  std::string tensor, kind;  // "wte.weight", "parameter"
  std::string expected, actual;
  std::string segment;  // of that device's memory
  int64_t num_bytes = 0;
};
// The rows whose tensors lie elsewhere, in words.
std::vector<std::string> misplaced(const std::vector<PlacementRow>& rows);

struct Validation {
  std::vector<Check> checks;
  std::vector<ParameterRow> parameters;
  std::vector<PlacementRow> placements;
  std::vector<NodeError> nodes;  // by error, the largest first
  std::vector<DirectionalDerivative> derivatives;
  std::string digest;  // of outputs and states after two steps: equal in every process

  bool passed() const;
};

// Checks structure (V1), backward (V2), numerics (V3: each compiled step beside its reference; the
// gradients beside float64 differences), reproducibility (V4: twice, and from the cache), purity
// (C12: traced twice gives one hash) and placement (V7).
// `make_kernels`: null for the compiler's own.
Validation validate(const Subject& subject, const KernelMaker& make_kernels = nullptr);

// The digest alone: two steps from the seed.
std::string digest_of(const Subject& subject);

}  // namespace monograph::verify
