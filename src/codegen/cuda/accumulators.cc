#include "codegen/cuda/accumulators.h"

#include <algorithm>

namespace monograph::codegen::cuda {

using ir::Domain;
using ir::Instruction;
using ir::InstructionKind;

Accumulators::Accumulators(const KernelText& text) : text_(text) {
  for (int id = 0; id < text.size(); ++id) {
    if (at(id).kind == InstructionKind::kAccumulate) ids_.push_back(id);
  }
}

bool Accumulators::needs_finish() const {
  return std::any_of(ids_.begin(), ids_.end(), [&](int id) { return !goes_direct(id); });
}

std::string Accumulators::partials(int id) const {
  const auto number = std::find(ids_.begin(), ids_.end(), id) - ids_.begin();
  return fmt::format("b{} + {}", text_.loop().partials_buffer,
                     text_.loop().partial_offsets[number]);
}

std::string Accumulators::store(int id, const std::string& column, const std::string& value) const {
  const ir::Access& access = at(id).access;
  return fmt::format("b{}[{}] = {};", access.buffer, text_.element(access, column),
                     store_text(text_.loop().buffers[access.buffer].dtype, value));
}

void Accumulators::open(SourceWriter& out, bool columns) const {
  const ThreadMap& map = text_.map();
  for (const int id : ids_) {
    if (at(id).keeps_inner != columns) continue;
    const std::string_view type = text_.c_type(id);
    const std::string zero = text_.zero(id);
    if (!columns) {
      out.line("{} a{} = {};", type, id, zero);
    } else if (map.in_registers) {
      out.line("Pack<{}, {}> a{}[{}];", type, map.width, id, map.steps);
      out.pragma("unroll");
      out.open("for (int step = 0; step < {}; ++step) {{", map.steps);
      out.pragma("unroll");
      out.line("for (int i = 0; i < {}; ++i) a{}[step].at[i] = {};", map.width, id, zero);
      out.close();
    } else {
      open_column_loop(out);
      out.line("for (int i = 0; i < {}; ++i) a{}[column + i] = {};", map.width, id, zero);
      out.close();
    }
  }
}

std::string Accumulators::update(int id, const std::string& value) const {
  std::string place = fmt::format("a{}", id);
  if (at(id).keeps_inner) place += text_.map().in_registers ? "[step].at[i]" : "[column + i]";
  if (at(id).reduction == ir::Reduction::kSum) return fmt::format("{} += {};", place, value);
  return fmt::format("{} = {};", place, text_.combined(id, place, value));
}

// The columns of this thread, without those beyond the row's end.
void Accumulators::open_column_loop(SourceWriter& out) const {
  const ThreadMap& map = text_.map();
  if (!map.in_registers) {
    out.open("for ({} column = lane * {}; column < {}; column += {}) {{", text_.column_type(),
             map.width, text_.loop().inner_extent, map.threads_per_row * map.width);
    return;
  }
  out.pragma("unroll");
  out.open("for (int step = 0; step < {}; ++step) {{", map.steps);
  out.line("const {} column = {}(step * {} + lane) * {};", text_.column_type(),
           map.tiles_columns ? "low + " : "", map.threads_per_row, map.width);
  out.line("if (column >= {}) break;", text_.loop().inner_extent);
}

// The groups of the block, one after the other, add theirs to those of group 0.
void Accumulators::add_groups(SourceWriter& out, int id) const {
  const ThreadMap& map = text_.map();
  out.open("for (int other = 1; other < {}; ++other) {{", map.rows_at_once);
  out.line("__syncthreads();");
  out.line("if (group == other) {{");
  out.pragma("unroll");
  out.line("  for (int step = 0; step < {0}; ++step) parts{1}[step][lane] = a{1}[step];", map.steps,
           id);
  out.line("}}");
  out.line("__syncthreads();");
  out.line("if (group == 0) {{");
  out.pragma("unroll");
  out.open("for (int step = 0; step < {}; ++step) {{", map.steps);
  out.line("const Pack<{}, {}> part = parts{}[step][lane];", text_.c_type(id), map.width, id);
  out.pragma("unroll");
  out.line("for (int i = 0; i < {}; ++i) {}", map.width, update(id, "part.at[i]"));
  out.close();
  out.line("}}");
  out.close();
}

void Accumulators::close_columns(SourceWriter& out) const {
  const ThreadMap& map = text_.map();
  for (const int id : ids_) {
    if (!at(id).keeps_inner) continue;
    out.open("{{  // %{}", id);
    if (map.rows_at_once > 1) {
      out.line("__shared__ Pack<{}, {}> parts{}[{}][{}];", text_.c_type(id), map.width, id,
               map.steps, map.threads_per_row);
      add_groups(out, id);
      out.open("if (group == 0) {{");
    }
    open_column_loop(out);
    const std::string value =
        map.in_registers ? fmt::format("a{}[step].at[i]", id) : fmt::format("a{}[column + i]", id);
    out.pragma("unroll");
    if (goes_direct(id)) {
      out.line("for (int i = 0; i < {}; ++i) {}", map.width, store(id, "(column + i)", value));
    } else {
      out.line("for (int i = 0; i < {}; ++i) ({})[{}L * blockIdx.x + column + i] = {};", map.width,
               partials(id), text_.loop().inner_extent, value);
    }
    out.close();
    if (map.rows_at_once > 1) out.close();
    out.close();
  }
}

void Accumulators::close_all(SourceWriter& out) const {
  for (const int id : ids_) {
    if (at(id).keeps_inner) continue;
    out.line("a{0} = reduce_block<{1}, {2}>(a{0});", id, text_.op_name(at(id)),
             text_.map().threads());
    const std::string value = fmt::format("a{}", id);
    if (goes_direct(id)) {
      out.line("if (threadIdx.x == 0) {}", store(id, "0", value));
    } else {
      out.line("if (threadIdx.x == 0) ({})[blockIdx.x] = {};", partials(id), value);
    }
  }
}

int64_t Accumulators::columns_of_finish() const {
  int64_t columns = 1;
  for (const int id : ids_) {
    if (at(id).keeps_inner && !goes_direct(id)) columns = text_.loop().inner_extent;
  }
  return columns;
}

void Accumulators::finish(SourceWriter& out, size_t number) const {
  const int id = ids_[number];
  if (goes_direct(id)) return;
  out.open("if (blockIdx.y == {}) {{  // %{}", number, id);
  if (at(id).keeps_inner) {
    const int64_t columns = text_.loop().inner_extent;
    out.line("const {0} column = ({0})blockIdx.x * 32 + threadIdx.x % 32;", text_.column_type());
    out.line("const {} total = reduce_column_parts<{}>({} + column, {}, {}, column < {});",
             text_.c_type(id), text_.op_name(at(id)), partials(id), text_.num_blocks(), columns,
             columns);
    out.line("if (threadIdx.x < 32 && column < {}) {}", columns, store(id, "column", "total"));
  } else {
    out.line("if (blockIdx.x > 0) return;");
    out.line("const {} total = reduce_parts<{}>({}, {});", text_.c_type(id), text_.op_name(at(id)),
             partials(id), text_.num_blocks());
    out.line("if (threadIdx.x == 0) {}", store(id, "0", "total"));
  }
  out.close();
}

}  // namespace monograph::codegen::cuda
