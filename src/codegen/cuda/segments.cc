#include "codegen/cuda/segments.h"

#include <algorithm>

namespace monograph::codegen::cuda {

using ir::Instruction;
using Kind = ir::InstructionKind;

Segments::Segments(const KernelText& text, const Columns& columns)
    : text_(text), columns_(columns) {
  bool known_at_once = true;
  for (int id = 0; id < text.size(); ++id) {
    if (text.at(id).kind != Kind::kSegmentSum) continue;
    ids_.push_back(id);
    for (const int bound : text.at(id).operands) known_at_once &= text.at(bound).sweep == 0;
  }
  const ThreadMap& map = text.map();
  is_shared_ = !ids_.empty() && known_at_once && map.in_registers && map.threads_per_row >= 32 &&
               map.rows_at_once > 1 && !map.tiles_columns;
}

void Segments::declare_shared(SourceWriter& out) const {
  if (!is_shared_) return;
  const ThreadMap& map = text_.map();
  out.line("__shared__ long segments[{}][2];", map.rows_at_once);
  for (const int id : ids_) {
    out.line("__shared__ {} whole{}[{}][{}];", columns_.pack_type(id, map.width), id, map.steps,
             map.threads_per_row);
  }
}

void Segments::for_steps(SourceWriter& out, const std::string& work) const {
  out.pragma("unroll");
  out.line("for (int step = 0; step < {}; ++step) {}", text_.map().steps, work);
}

void Segments::zero(SourceWriter& out, const std::string& total, int id) const {
  for_steps(out,
            fmt::format("{}[step] = {}{{}};", total, columns_.pack_type(id, text_.map().width)));
}

// Adds position s to the packs `total`, at the thread's columns.
void Segments::add_position(SourceWriter& out, int id, const std::string& total) const {
  const Instruction& i = text_.at(id);
  const ThreadMap& map = text_.map();
  ir::Access values = i.access;
  values.index = -1;
  std::string element =
      fmt::format("b{}[first + {}]", i.access.buffer, text_.element(values, "(column + i)"));
  if (i.access.inner_stride == 1) {
    out.line("const Pack<{}, {}> p = {}<{}>(b{} + (first + {}));",
             storage_type_name(text_.dtype_of(i)), map.width,
             text_.may_change(i.access.buffer) ? "load_pack" : "load_constant_pack", map.width,
             i.access.buffer, text_.element(values, "column"));
    element = "p.at[i]";
  }
  out.pragma("unroll");
  out.line("for (int i = 0; i < {}; ++i) {}.at[i] += {};", map.width, total,
           load_text(text_.dtype_of(i), element));
}

void Segments::add_positions(SourceWriter& out, int id, const std::string& total,
                             const std::string& begin, const std::string& end, int step) const {
  const Instruction& i = text_.at(id);
  const ThreadMap& map = text_.map();
  // Several positions at once, as far as registers go.
  out.pragma(fmt::format("unroll {}", std::clamp(8 / std::max(map.steps, 1), 1, 4)));
  out.open("for (long s = {}; s < {}; s += {}) {{", begin, end, step);
  out.line("const long first = {}L * b{}[s];", i.access.index_stride, i.order_buffer);
  if (map.in_registers) {
    out.pragma("unroll");
    out.open("for (int step = 0; step < {}; ++step) {{", map.steps);
    out.line("const {} column = (step * {} + lane) * {};", text_.column_type(), map.threads_per_row,
             map.width);
    const int64_t inner = text_.loop().inner_extent;
    if (inner % map.columns_of_block() != 0) out.line("if (column >= {}) continue;", inner);
    add_position(out, id, total + "[step]");
    out.close();
  } else {
    add_position(out, id, total);
  }
  out.close();
}

void Segments::sum(SourceWriter& out, int id) const {
  const Instruction& i = text_.at(id);
  const ThreadMap& map = text_.map();
  const std::string begin = text_.operand(i.operands[0], CType::kLong);
  const std::string end = text_.operand(i.operands[1], CType::kLong);
  if (map.in_registers) {
    zero(out, fmt::format("k{}", id), id);
    add_positions(out, id, fmt::format("k{}", id), begin, end, 1);
    return;
  }
  out.open("for ({} column = lane * {}; column < {}; column += {}) {{", text_.column_type(),
           map.width, text_.loop().inner_extent, map.threads_per_row * map.width);
  out.line("{} total{{}};", columns_.pack_type(id, map.width));
  add_positions(out, id, "total", begin, end, 1);
  out.line("store_pack(k{} + column, total);", id);
  out.close();
}

void Segments::sum_all(SourceWriter& out) const {
  for (const int id : ids_) sum_long(out, id);
}

void Segments::sum_long(SourceWriter& out, int id) const {
  const Instruction& i = text_.at(id);
  const ThreadMap& map = text_.map();
  const std::string sum = fmt::format("k{}", id), whole = fmt::format("whole{}", id);
  out.open("{{  // %{}: a short segment by its warp, a long one by all warps of the block", id);
  out.line("const long begin = is_row ? {} : 0, end = is_row ? {} : 0;",
           text_.operand(i.operands[0], CType::kLong), text_.operand(i.operands[1], CType::kLong));
  zero(out, sum, id);
  out.open("if (end - begin <= {}) {{", kLongSegment);
  add_positions(out, id, sum, "begin", "end", 1);
  out.close();
  out.line("if (lane == 0) segments[group][0] = begin, segments[group][1] = end;");
  out.line("__syncthreads();");
  out.open("for (int other = 0; other < {}; ++other) {{", map.rows_of_block);
  out.line("const long first_position = segments[other][0], last_position = segments[other][1];");
  out.line("if (last_position - first_position <= {}) continue;", kLongSegment);
  out.line("{} total[{}];", columns_.pack_type(id, map.width), map.steps);
  zero(out, "total", id);
  add_positions(out, id, "total", "first_position + group", "last_position", map.rows_at_once);
  out.open("for (int warp = 0; warp < {}; ++warp) {{", map.rows_at_once);
  out.open("if (group == warp) {{");
  out.pragma("unroll");
  out.open("for (int step = 0; step < {}; ++step) {{", map.steps);
  out.line("if (warp > 0) {{");
  out.pragma("unroll");
  out.line("for (int i = 0; i < {}; ++i) total[step].at[i] += {}[step][lane].at[i];", map.width,
           whole);
  out.line("}}");
  out.line("{}[step][lane] = total[step];", whole);
  out.close();
  out.close();
  out.line("__syncthreads();");
  out.close();
  out.line("if (group == other) {{");
  for_steps(out, fmt::format("{}[step] = {}[step][lane];", sum, whole));
  out.line("}}");
  out.line("__syncthreads();");
  out.close();
  out.line("__syncthreads();");
  out.close();
}

}  // namespace monograph::codegen::cuda
