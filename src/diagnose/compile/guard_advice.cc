#include <fmt/format.h>

#include "diagnose/compile/guard.h"

namespace monograph::diagnose {
namespace {

std::string size_advice(const Guard& guard) {
  if (guard.index == 0) {
    return fmt::format(
        "mark it dynamic before the first call: torch._dynamo.mark_dynamic({0}, 0), or pass "
        "dynamic=True to torch.compile; if only the last batch differs, drop_last=True in the "
        "DataLoader or padding keeps one size",
        guard.subject);
  }
  return fmt::format(
      "mark it dynamic before the first call: torch._dynamo.mark_dynamic({0}, {1}), or pass "
      "dynamic=True to torch.compile; or pad {0} to a few fixed sizes (buckets)",
      guard.subject, guard.index);
}

std::string shape_advice(const Guard& guard) {
  if (is_zero_or_one(guard)) {
    return "sizes 0 and 1 always get a graph of their own: one more graph is normal; drop or pad a "
           "last batch of one (drop_last=True), or torch._dynamo.decorators.mark_unbacked(tensor, "
           "dim)";
  }
  const std::size_t equal = guard.subject.find(" == ");
  if (guard.subject.find('%') != std::string::npos) {
    return "the compiled code holds for multiples of this number only: pad the dimension to one";
  }
  if (equal != std::string::npos && guard.subject.find(".size()[", equal) != std::string::npos) {
    return "sizes that are equal in the first call are taken to be one symbol: make the first call "
           "with different sizes, or set torch.fx.experimental._config.use_duck_shape = False; if "
           "the code needs them equal, the recompile is right";
  }
  return "the code compares a size with a constant: rewrite the branch so that it does not depend "
         "on the size, or state the range with torch._dynamo.mark_dynamic(tensor, dim, min=, "
         "max=)";
}

std::string value_advice(const Guard& guard, bool is_repeated) {
  const bool is_number = guard.kind == GuardKind::kFloat ||
                         guard.kind == GuardKind::kModuleNumber ||
                         guard.kind == GuardKind::kInteger;
  if (is_number && guard.subject.find("param_groups") != std::string::npos) {
    return "options of the optimizer are compiled in: give it a tensor (lr=torch.tensor(1e-3)), "
           "which a scheduler may change without a recompile";
  }
  switch (guard.kind) {
    case GuardKind::kFloat:
      return fmt::format(
          "a Python float is compiled in as a constant: pass {0} as a tensor "
          "(torch.tensor({0})), or set torch._dynamo.config.specialize_float = False",
          guard.subject);
    case GuardKind::kInteger:
      return fmt::format(
          "a Python int is compiled in until it changes: pass {0} as a tensor, or keep "
          "dynamic=None and torch._dynamo.config.automatic_dynamic_shapes on so that it becomes "
          "symbolic (0 and 1 always specialise)",
          guard.subject);
    case GuardKind::kModuleNumber:
      return fmt::format(
          "numbers on a module are compiled in: register {0} as a tensor buffer, update it outside "
          "the compiled function, or set torch._dynamo.config.allow_unspec_int_on_nn_module = True",
          guard.subject);
    case GuardKind::kBoolean:
    case GuardKind::kNone:
      return fmt::format(
          "each value of {0} needs its own graph: two are fine; to avoid them choose the branch "
          "outside the compiled function{1}",
          guard.subject, is_repeated ? ", or make it a tensor and use torch.where" : "");
    case GuardKind::kString:
      return fmt::format(
          "each value of {0} needs its own graph: choose the mode outside and compile one function "
          "a mode, or keep the number of values below torch._dynamo.config.recompile_limit",
          guard.subject);
    default:
      return fmt::format(
          "{0} is compiled in as a constant: keep it fixed, or move what depends on it outside the "
          "compiled function",
          guard.subject);
  }
}

std::string tensor_advice(const Guard& guard) {
  switch (guard.kind) {
    case GuardKind::kStride:
      return fmt::format(
          "give {0} one memory layout: call {0}.contiguous() (or keep one memory_format) before "
          "the compiled function",
          guard.subject);
    case GuardKind::kNumDims:
      return fmt::format("unsqueeze or reshape {0} to one number of dimensions before the call",
                         guard.subject);
    case GuardKind::kDtype:
      return fmt::format(
          "cast {0} to one dtype before the call, and use the same autocast and model dtype in all "
          "phases",
          guard.subject);
    case GuardKind::kDevice:
      return fmt::format("move {0} to one device and layout before the call", guard.subject);
    case GuardKind::kRequiresGrad:
      return fmt::format(
          "one graph for training and one for evaluation is normal; otherwise detach {0}, or make "
          "all inputs agree, and warm up under the same grad mode as you train",
          guard.subject);
    default:
      return fmt::format("pass one kind of object as {0}: a plain tensor each time", guard.subject);
  }
}

}  // namespace

std::string guard_advice(const Guard& guard, bool is_repeated) {
  switch (guard.kind) {
    case GuardKind::kSize:
      return size_advice(guard);
    case GuardKind::kShape:
      return shape_advice(guard);
    case GuardKind::kStride:
    case GuardKind::kNumDims:
    case GuardKind::kDtype:
    case GuardKind::kDevice:
    case GuardKind::kRequiresGrad:
    case GuardKind::kTensorType:
      return tensor_advice(guard);
    case GuardKind::kGradMode:
      return "training and evaluation under torch.no_grad each need a graph: two are normal; warm "
             "both up before timing, and do not toggle grad mode around single calls";
    case GuardKind::kAutocast:
      return "enter torch.autocast in the same way around every call, or inside the compiled "
             "function";
    case GuardKind::kGlobalState:
      return "set global switches (default dtype and device, deterministic algorithms, threads) "
             "once before the first compiled call";
    case GuardKind::kTraining:
      return "model.train() and model.eval() each need a graph: two are normal; do not toggle them "
             "in every step";
    case GuardKind::kLength:
      return fmt::format(
          "the loop over it is unrolled at compile time: keep {0} constant, or pass one stacked or "
          "padded tensor",
          guard.subject);
    case GuardKind::kKeys:
      return fmt::format(
          "pass {0} with the same keys in the same order each time, or tensors as "
          "arguments of their own",
          guard.subject);
    case GuardKind::kIdentity:
      return fmt::format(
          "if {0} is made anew between calls, create it (lambda, partial, module, config object) "
          "once and reuse it; if it is one of a few, compile one function for each",
          guard.subject);
    case GuardKind::kType:
      return fmt::format("pass objects of one class as {0}, or compile one function a class",
                         guard.subject);
    case GuardKind::kAttribute:
      return fmt::format(
          "let {0} exist in all calls or in none: create it before the first compiled call, with "
          "None where it is not used",
          guard.subject);
    case GuardKind::kAliasing:
      return "do not pass one tensor as two arguments in some calls only: clone one of them";
    case GuardKind::kBackend:
      return "compile a function with one backend and one set of options only";
    case GuardKind::kUnknown:
      return "run with TORCH_LOGS=recompiles_verbose: it lists every failing guard";
    default:
      return value_advice(guard, is_repeated);
  }
}

}  // namespace monograph::diagnose
