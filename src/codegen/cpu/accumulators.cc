#include "codegen/cpu/accumulators.h"

#include <algorithm>

namespace monograph::codegen {
namespace {

using ir::InstructionKind;
using ir::Reduction;

constexpr int64_t kStackElements = 8192;
constexpr int64_t kColumnTile = 512;  // columns whose partial results are added at once
constexpr int64_t kParallelPartials = int64_t{1} << 16;  // fewer are added by one thread

bool is_float(CType type) {
  return type == CType::kFloat || type == CType::kDouble;
}

}  // namespace

void declare_array(SourceWriter& out, std::string_view type, const std::string& name,
                   int64_t count) {
  if (count <= kStackElements) {
    out.line("alignas(64) {} {}[{}];", type, name, count);
  } else {
    out.line("{0}* const {1} = ({0}*)__builtin_malloc({2}L * sizeof({0}));", type, name, count);
  }
}

void release_array(SourceWriter& out, const std::string& name, int64_t count) {
  if (count > kStackElements) out.line("__builtin_free({});", name);
}

std::string initial_text(Reduction reduction, CType type) {
  if (reduction == Reduction::kSum) return constant_text(0, type);
  if (is_float(type)) return constant_text(-__builtin_inf(), type);
  return "-9223372036854775807L - 1";
}

Accumulators::Accumulators(const ir::Loop& loop, const ir::Loop& bounds, const ValueTypes& types,
                           const Addresses& addresses)
    : loop_(loop), bounds_(bounds), types_(types), addresses_(addresses) {
  for (int id = 0; id < static_cast<int>(loop.instructions.size()); ++id) {
    if (at(id).kind == InstructionKind::kAccumulate) ids_.push_back(id);
  }
}

bool Accumulators::is_direct(int id) const {
  return loop_.num_blocks == 1 || (addresses_.splits_inner() && at(id).keeps_inner);
}

bool Accumulators::tracks_nan(int id) const {
  return at(id).reduction == Reduction::kMax && !at(id).keeps_inner && is_float(type(id));
}

std::string Accumulators::partials(int id) const {
  const auto number = std::find(ids_.begin(), ids_.end(), id) - ids_.begin();
  return fmt::format("b{} + {}", loop_.partials_buffer, loop_.partial_offsets[number]);
}

std::string Accumulators::combined(int id, const std::string& a, const std::string& b) const {
  if (at(id).reduction == Reduction::kSum) return fmt::format("{} + {}", a, b);
  return fmt::format("max_of<{}>({}, {})", c_type_name(type(id)), a, b);
}

std::string Accumulators::store(int id, const std::string& element,
                                const std::string& value) const {
  const int buffer = at(id).access.buffer;
  return fmt::format("b{}[{}] = {};", buffer, element,
                     store_text(loop_.buffers[buffer].dtype, value));
}

void Accumulators::open_block(SourceWriter& out) const {
  for (const int id : ids_) {
    const std::string_view c_type = c_type_name(type(id));
    const std::string initial = initial_text(at(id).reduction, type(id));
    if (!at(id).keeps_inner) {
      out.line("{} a{} = {};", c_type, id, initial);
      if (tracks_nan(id)) out.line("int bad{} = 0;", id);
      continue;
    }
    const std::string name = fmt::format("a{}", id);
    if (is_direct(id)) {
      declare_array(out, c_type, name, addresses_.capacity());
    } else {
      out.line("{}* const {} = {} + {}L * block;", c_type, name, partials(id), loop_.inner_extent);
    }
    out.line("for ({} i = 0; i < {}; ++i) {}[i] = {};", addresses_.column_type(),
             addresses_.length(), name, initial);
  }
}

std::string Accumulators::update_text(int id, const std::string& value) const {
  const std::string place = at(id).keeps_inner ? fmt::format("a{}[i]", id) : fmt::format("a{}", id);
  if (at(id).reduction == Reduction::kSum) return fmt::format("{} += {};", place, value);
  if (!tracks_nan(id)) return fmt::format("{} = {};", place, combined(id, place, value));
  return fmt::format("{0} = {0} > {1} ? {0} : {1}, bad{2} |= {1} != {1};", place, value, id);
}

std::string Accumulators::clause(int id) const {
  if (at(id).keeps_inner) return "";
  if (at(id).reduction == Reduction::kSum) return fmt::format(" reduction(+:a{})", id);
  return fmt::format(" reduction(max:a{0}){1}", id,
                     tracks_nan(id) ? fmt::format(" reduction(|:bad{})", id) : "");
}

void Accumulators::close_block(SourceWriter& out) const {
  for (const int id : ids_) {
    const ir::Access& access = at(id).access;
    if (!at(id).keeps_inner) {
      if (tracks_nan(id))
        out.line("if (bad{0}) a{0} = {1};", id, constant_text(__builtin_nan(""), type(id)));
      if (is_direct(id)) {
        out.line("{}", store(id, addresses_.first(access), fmt::format("a{}", id)));
      } else {
        out.line("({})[block] = a{};", partials(id), id);
      }
    } else if (is_direct(id)) {
      const std::string element =
          fmt::format("{} + {}L * i", addresses_.first(access), access.inner_stride);
      out.line("for ({} i = 0; i < {}; ++i) {}", addresses_.column_type(), addresses_.length(),
               store(id, element, fmt::format("a{}[i]", id)));
      release_array(out, fmt::format("a{}", id), addresses_.capacity());
    }
  }
}

void Accumulators::finish(SourceWriter& out) const {
  for (const int id : ids_) {
    if (is_direct(id)) continue;
    at(id).keeps_inner ? finish_columns(out, id) : finish_scalar(out, id);
  }
}

void Accumulators::finish_scalar(SourceWriter& out, int id) const {
  out.open("{{  // adds the blocks' %{}", id);
  out.line("const {}* const part = {};", c_type_name(type(id)), partials(id));
  out.line("{} total = part[0];", c_type_name(type(id)));
  out.line("for (int block = 1; block < {}; ++block) total = {};", loop_.num_blocks,
           combined(id, "total", "part[block]"));
  out.line("{}", store(id, addresses_.first(at(id).access), "total"));
  out.close();
}

void Accumulators::finish_columns(SourceWriter& out, int id) const {
  const ir::Access& access = at(id).access;
  const int64_t columns = loop_.inner_extent;
  const int64_t most = bounds_.inner_extent;
  const int64_t tile = std::min(most, kColumnTile);
  out.line("// adds the blocks' %{}, column by column", id);
  if (most * loop_.num_blocks >= kParallelPartials && most > tile) {
    out.pragma("omp parallel for schedule(static)");
  }
  out.open("for (long low = 0; low < {}; low += {}) {{", columns, tile);
  out.line("const {}* const part = {} + low;", c_type_name(type(id)), partials(id));
  out.line("const int length = {0} - low < {1} ? (int)({0} - low) : {1};", columns, tile);
  out.line("{} total[{}];", c_type_name(type(id)), tile);
  out.line("for (int i = 0; i < length; ++i) total[i] = part[i];");
  out.open("for (int block = 1; block < {}; ++block) {{", loop_.num_blocks);
  out.pragma("omp simd");
  out.line("for (int i = 0; i < length; ++i) total[i] = {};",
           combined(id, "total[i]", fmt::format("part[{}L * block + i]", columns)));
  out.close();
  // In a loop split over rows first() knows no `low`.
  const std::string element =
      fmt::format("{} + {}L * (low + i)", addresses_.first(access), access.inner_stride);
  out.line("for (int i = 0; i < length; ++i) {}", store(id, element, "total[i]"));
  out.close();
}

}  // namespace monograph::codegen
