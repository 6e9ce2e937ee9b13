#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/trace/trace.h"
#include "ir/mesh.h"
#include "ir/type.h"

// What a compiled graph holds for, and whether a call is such a case. See docs/guards.md.
namespace monograph::session {

inline constexpr std::string_view kHostDevice = "cpu";

// What guards look at in one input of a call. The type is that of the tensor in memory: its axes
// from the outermost to the innermost are the tensor's axes `order` (empty: row-major).
struct InputFacts {
  const ir::TensorType* type = nullptr;
  std::vector<int64_t> order = {};
};

struct CallFacts {
  std::vector<InputFacts> inputs;
  const ir::Mesh* mesh = nullptr;  // null: one rank
};

// The sizes that one axis may have. Axes of one symbol have one size; -1: of no symbol.
struct DimGuard {
  int64_t min = 0, max = 0, multiple = 1;
  int symbol = -1;

  bool is_static() const { return min == max; }
  std::string str() const;  // "8", "batch 1..512", "batch 8..512, a multiple of 8"
  std::string name = {};    // of the symbol
};

struct InputGuard {
  ir::DType dtype = ir::DType::kF32;
  std::vector<DimGuard> dims;
  std::vector<int64_t> order;
  ir::Provenance first_use;  // where the traced function reads the input

  std::string type_text() const;  // "f32[8,64]"
};

// A guard that did not hold for a call.
struct GuardMiss {
  std::string guard;  // "input 'x' dim 0", "training mode of 'drop'", "mesh"
  std::string expected, got;
  std::string fix;          // what to write so that it holds
  ir::Provenance place;     // the line that relies on it
  std::string str() const;  // on one line
};

// The guards of one variant of a compiled function.
struct Guards {
  std::vector<InputGuard> inputs;
  std::vector<trace::Trace::Switch> switches;
  ir::Mesh mesh;
  int num_symbols = 0;

  bool hold(const CallFacts& call) const;
  // What each is of, and what it takes to hold, with the line that relies on it: "tokens",
  // "i64[batch,64], batch 1..8 (used at gpt.cc:31)". `names` are those of the inputs.
  std::vector<std::pair<std::string, std::string>> describe(
      std::span<const std::string> names) const;
  // Of each guard that does not hold.
  std::vector<GuardMiss> misses(const CallFacts& call, std::span<const std::string> names) const;
};

// Guards for exactly these inputs.
std::vector<InputGuard> static_guards(const CallFacts& call);

// Why none of the variants (at least one) serves the call: the misses of the nearest one.
std::vector<GuardMiss> nearest_misses(std::span<const Guards* const> known, const CallFacts& call,
                                      std::span<const std::string> names);

// How a number read on the host enters the graph: as a number of it, or by a branch of the
// function. `place`: of the first node that is another with another number.
struct NumberUse {
  bool is_number = false;
  ir::Provenance place;
};
// Of two traces that read different numbers; empty where they are equal. (paths.cc)
std::optional<NumberUse> number_use(const ir::Graph& before, const ir::Graph& now);

// The same for a path that was traced with another number read on the host.
GuardMiss read_miss(const trace::HostRead& read, double expected, double given,
                    const std::optional<NumberUse>& use);

std::string to_text(std::span<const GuardMiss> misses);  // "; " between them

}  // namespace monograph::session
