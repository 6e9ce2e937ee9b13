#include "frontend/session/guards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace monograph::session {
namespace {

constexpr int kMaxSymbols = 8;

bool fits(const DimGuard& guard, int64_t size) {
  return size >= guard.min && size <= guard.max &&
         (guard.multiple == 1 || size % guard.multiple == 0);
}

bool holds(const InputGuard& guard, const InputFacts& input,
           std::array<int64_t, kMaxSymbols>& sizes) {
  const std::vector<int64_t>& dims = input.type->shape.dims();
  if (guard.dtype != input.type->dtype || guard.dims.size() != dims.size()) return false;
  if (guard.order != input.order) return false;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const DimGuard& dim = guard.dims[axis];
    if (!fits(dim, dims[axis])) return false;
    if (dim.symbol < 0) continue;
    int64_t& size = sizes[dim.symbol];
    if (size == 0) size = dims[axis];
    if (size != dims[axis]) return false;
  }
  return true;
}

std::string order_text(const std::vector<int64_t>& order) {
  return order.empty() ? "row-major"
                       : fmt::format("axes ({}) from outer to inner", fmt::join(order, ","));
}

// The first guard of an input that misses; sizes of symbols as in holds().
class InputMiss {
 public:
  InputMiss(const InputGuard& guard, const InputFacts& input, const std::string& name)
      : guard_(guard), input_(input), name_(name) {}

  GuardMiss find(std::array<int64_t, kMaxSymbols>& sizes) const {
    const ir::TensorType& given = *input_.type;
    if (guard_.dtype != given.dtype) {
      return make("dtype", guard_.type_text(), given.str(),
                  fmt::format("cast it to {} before the call", ir::dtype_name(guard_.dtype)));
    }
    if (guard_.dims.size() != given.shape.dims().size()) {
      return make("rank", guard_.type_text(), given.str(),
                  "give it one rank, or compile two functions");
    }
    if (guard_.order != input_.order) {
      return make("layout", order_text(guard_.order), order_text(input_.order),
                  "give it in one layout, e.g. a contiguous copy");
    }
    for (int axis = 0; axis < given.shape.rank(); ++axis) {
      const DimGuard& dim = guard_.dims[axis];
      const std::string what = fmt::format("dim {}", axis);
      if (!fits(dim, given.shape[axis])) return dim_miss(what, dim, given.shape[axis]);
      if (dim.symbol < 0) continue;
      int64_t& size = sizes[dim.symbol];
      if (size == 0) size = given.shape[axis];
      if (size == given.shape[axis]) continue;
      return make(what, fmt::format("{} = {}, as in an input before", dim.name, size),
                  std::to_string(given.shape[axis]),
                  "give equal sizes, or declare two Dims of different names");
    }
    return {};
  }

 private:
  GuardMiss make(const std::string& what, std::string expected, std::string got,
                 std::string fix) const {
    return {fmt::format("input '{}' {}", name_, what), std::move(expected), std::move(got),
            std::move(fix), guard_.first_use};
  }

  GuardMiss dim_miss(const std::string& what, const DimGuard& dim, int64_t given) const {
    if (dim.is_static()) {
      return make(what, guard_.type_text(), input_.type->str(),
                  "declare it in CompileOptions::dynamic_shapes, or pad it");
    }
    const bool in_range = given >= dim.min && given <= dim.max;
    return make(what, dim.str(), std::to_string(given),
                in_range ? fmt::format("pad it to a multiple of {}", dim.multiple)
                         : "declare a wider range, or cut the input");
  }

  const InputGuard& guard_;
  const InputFacts& input_;
  const std::string& name_;
};

bool is_same(const ir::Mesh& expected, const ir::Mesh* given) {
  return given == nullptr ? expected.axes().empty() : *given == expected;
}

}  // namespace

std::string DimGuard::str() const {
  if (is_static()) return std::to_string(min);
  const std::string range = fmt::format("{} {}..{}", name, min, max);
  return multiple == 1 ? range : fmt::format("{}, a multiple of {}", range, multiple);
}

std::string InputGuard::type_text() const {
  std::vector<std::string> texts;
  for (const DimGuard& dim : dims) texts.push_back(dim.is_static() ? dim.str() : dim.name);
  return fmt::format("{}[{}]", ir::dtype_name(dtype), fmt::join(texts, ","));
}

std::string GuardMiss::str() const {
  std::string text = fmt::format("{}: expected {}, got {}", guard, expected, got);
  if (!place.file.empty()) text += fmt::format(" (used at {}:{})", place.file, place.line);
  return fmt::format("{}: {}", text, fix);
}

bool Guards::hold(const CallFacts& call) const {
  if (call.inputs.size() != inputs.size()) return false;
  std::array<int64_t, kMaxSymbols> sizes = {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!holds(inputs[i], call.inputs[i], sizes)) return false;
  }
  const bool switches_stand = std::all_of(
      switches.begin(), switches.end(), [](const auto& each) { return *each.flag == each.value; });
  return switches_stand && is_same(mesh, call.mesh);
}

std::vector<std::pair<std::string, std::string>> Guards::describe(
    std::span<const std::string> names) const {
  const auto with_place = [](std::string text, const ir::Provenance& place) {
    if (place.file.empty()) return text;
    return text + fmt::format(" (used at {}:{})", place.file, place.line);
  };
  std::vector<std::pair<std::string, std::string>> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string text = inputs[i].type_text();
    for (const DimGuard& dim : inputs[i].dims) {
      if (!dim.is_static()) text += ", " + dim.str();
    }
    if (!inputs[i].order.empty()) text += ", " + order_text(inputs[i].order);
    all.emplace_back(names[i], with_place(std::move(text), inputs[i].first_use));
  }
  for (const trace::Trace::Switch& each : switches) {
    all.emplace_back(each.what, with_place(fmt::format("{}", each.value), each.place));
  }
  if (!mesh.axes().empty()) all.emplace_back("mesh", mesh.str());
  return all;
}

std::vector<GuardMiss> Guards::misses(const CallFacts& call,
                                      std::span<const std::string> names) const {
  std::vector<GuardMiss> all;
  std::array<int64_t, kMaxSymbols> sizes = {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    GuardMiss miss = InputMiss(inputs[i], call.inputs[i], names[i]).find(sizes);
    if (!miss.guard.empty()) all.push_back(std::move(miss));
  }
  for (const trace::Trace::Switch& each : switches) {
    if (*each.flag == each.value) continue;
    all.push_back({each.what, fmt::format("{}", each.value), fmt::format("{}", !each.value),
                   "use one compiled function for each", each.place});
  }
  if (!is_same(mesh, call.mesh)) {
    all.push_back({"mesh",
                   mesh.str(),
                   call.mesh == nullptr ? ir::Mesh().str() : call.mesh->str(),
                   "call it on the mesh that it was compiled for, or expect one compilation a mesh",
                   {}});
  }
  return all;
}

std::vector<InputGuard> static_guards(const CallFacts& call) {
  std::vector<InputGuard> guards;
  for (const InputFacts& input : call.inputs) {
    InputGuard guard{input.type->dtype, {}, input.order, {}};
    for (const int64_t size : input.type->shape.dims()) guard.dims.push_back({size, size});
    guards.push_back(std::move(guard));
  }
  return guards;
}

std::vector<GuardMiss> nearest_misses(std::span<const Guards* const> known, const CallFacts& call,
                                      std::span<const std::string> names) {
  std::vector<GuardMiss> fewest;
  for (const Guards* each : known) {
    std::vector<GuardMiss> all = each->misses(call, names);
    if (fewest.empty() || all.size() < fewest.size()) fewest = std::move(all);
  }
  return fewest;
}

GuardMiss read_miss(const trace::HostRead& read, double expected, double given,
                    const std::optional<NumberUse>& use) {
  std::string what = read.reason();
  std::string fix = read.advice();
  if (use && read.kind == trace::HostRead::Kind::kItem) {
    const std::string place =
        use->place.file.empty() ? "" : fmt::format(" at {}:{}", use->place.file, use->place.line);
    what += use->is_number ? " and uses it as a number" : " and branches on it";
    what += place;
    fix = use->is_number
              ? "keep it a tensor: a scalar tensor broadcasts wherever a number may stand"
              : "use where(condition, a, b) or cond(condition, then, otherwise, {...}), which stay "
                "in the graph; a number of trips: while_loop()";
  }
  return {std::move(what), fmt::format("{}", expected), fmt::format("{}", given), std::move(fix),
          read.place};
}

std::string to_text(std::span<const GuardMiss> misses) {
  std::string text;
  for (const GuardMiss& miss : misses) text += (text.empty() ? "" : "; ") + miss.str();
  return text;
}

}  // namespace monograph::session
