#pragma once

#include <string>
#include <string_view>

namespace monograph::diagnose {

enum class GuardKind {
  kSize,   // a dimension of a tensor
  kShape,  // a relation between symbolic dimensions
  kStride,
  kNumDims,
  kDtype,
  kDevice,  // dispatch keys: device or layout
  kRequiresGrad,
  kTensorType,  // tensor, Parameter, subclass, no tensor at all
  kGradMode,
  kAutocast,
  kGlobalState,   // any other switch of PyTorch's global state
  kTraining,      // module.training
  kModuleNumber,  // int or float attribute of a module
  kFloat,
  kInteger,
  kBoolean,
  kString,
  kNone,
  kValue,      // another constant
  kLength,     // of a list, tuple, dict
  kKeys,       // of a dict
  kIdentity,   // which object
  kType,       // class of an object
  kAttribute,  // an attribute or key appeared or went
  kAliasing,   // two arguments are one tensor, or no longer
  kBackend,    // compiled with another backend before
  kUnknown,    // no reason, or none we know
};

// A guard failure taken apart.
struct Guard {
  GuardKind kind = GuardKind::kUnknown;
  std::string subject;     // as a person would write it: "x", "self.step", "len(xs)"
  int index = -1;          // dimension, for sizes and strides
  std::string expected;    // by the entry that failed; "" if unknown
  std::string actual;      // "" if the log does not say
  std::string expression;  // the guard without its comment
  std::string code;        // user code that made the guard; may be empty
  std::string file;        // of that code; PyTorch cuts off its first characters
  int line = 0;
  std::string function;

  // What stays equal when only values change: identifies the guard within its function.
  std::string key() const;
};

// Parses the text after "0/1: " of a recompile reason, of any version.
Guard parse_guard(std::string_view text);

// Whether the guard only says that a size is neither 0 nor 1, which always have graphs of their
// own.
bool is_zero_or_one(const Guard& guard);

// "size of x at dimension 0", without values
std::string describe_guard(const Guard& guard);

// Whether `expected` is a value that can be shown as one that changed.
bool has_values(const Guard& guard);

// "size of x at dimension 0: 8 -> 12"
std::string describe_change(const Guard& guard);

// What to do about recompiles that this guard causes. `is_repeated`: it failed again and again.
std::string guard_advice(const Guard& guard, bool is_repeated);

}  // namespace monograph::diagnose
