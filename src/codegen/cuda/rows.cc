#include "codegen/cuda/rows.h"

#include <algorithm>
#include <set>

namespace monograph::codegen::cuda {
namespace {

using ir::Domain;
using ir::Instruction;
using Kind = ir::InstructionKind;

int64_t aligned(int64_t bytes) {
  return (bytes + 15) / 16 * 16;
}

}  // namespace

Rows::Rows(const KernelText& text, const Accumulators& accumulators)
    : text_(text),
      accumulators_(accumulators),
      columns_(text, accumulators),
      segments_(text, columns_),
      is_prepared_(text.size(), false) {}

std::string Rows::wait() const {
  const ThreadMap& map = text_.map();
  return fmt::format("wait_for_group<{}>({});", map.threads_per_row,
                     map.rows_at_once > 1 ? "group" : "-1");
}

void Rows::render(SourceWriter& out) {
  const ThreadMap& map = text_.map();
  out.line("const int lane = threadIdx.x % {0}, group = threadIdx.x / {0};", map.threads_per_row);
  declare_shared(out);
  accumulators_.open(out, false);
  if (map.tiles_columns) {
    const int64_t tile = map.columns_of_block();
    out.open("for ({0} low = ({0})blockIdx.x * {1}; low < {2}; low += ({0})gridDim.x * {1}) {{",
             text_.column_type(), tile, text_.loop().inner_extent);
  }
  accumulators_.open(out, true);
  render_row_loop(out);
  accumulators_.close_columns(out);
  if (map.tiles_columns) out.close();
  accumulators_.close_all(out);
}

// What warps exchange; and, where a row is not in registers, what is held of it.
void Rows::declare_shared(SourceWriter& out) {
  const ThreadMap& map = text_.map();
  for (int id = 0; id < text_.size(); ++id) {
    if (at(id).kind != Kind::kReduce || map.threads_per_row <= 32) continue;
    out.line("__shared__ {} warps{}[{}][{}];", text_.c_type(id), id, map.rows_at_once,
             map.threads_per_row / 32);
  }
  segments_.declare_shared(out);
  if (map.in_registers) return;
  out.line("extern __shared__ __align__(16) u8 shared[];");
  const auto add = [&](std::string_view type, char letter, int id, int64_t bytes) {
    const bool is_ahead = letter == 'k' && columns_.comes_ahead(id);
    out.line("{0}* const {1}{2}{3} = ({0}*)(shared + {4});", type, letter, id,
             is_ahead ? "_rows" : "", shared_bytes_);
    shared_bytes_ += aligned(bytes * text_.loop().inner_extent) * (is_ahead ? 2 : 1);
  };
  for (const int id : text_.plan().row_buffers()) {
    const bool is_load = at(id).kind == Kind::kLoad;
    add(is_load ? storage_type_name(text_.dtype_of(at(id))) : text_.c_type(id), 'k', id,
        kept_bytes(text_.loop(), at(id)));
  }
  for (const int id : accumulators_.ids()) {
    if (at(id).keeps_inner) add(text_.c_type(id), 'a', id, kept_bytes(text_.loop(), at(id)));
  }
}

void Rows::render_row_loop(SourceWriter& out) {
  const ThreadMap& map = text_.map();
  if (map.rows_in_flight > 1) return render_rows_in_flight(out);
  const std::string_view type = text_.row_type();
  const int64_t rows = text_.loop().num_rows();
  if (map.tiles_columns) {
    out.open("for ({} row = group; row < {}; row += {}) {{", type, rows, map.rows_at_once);
  } else if (segments_.is_shared()) {  // all warps of the block go on together
    const int taken = map.rows_of_block;
    out.open("for ({0} base = ({0})blockIdx.x * {1}; base < {2}; base += ({0})gridDim.x * {1}) {{",
             type, taken, rows);
    out.line("const bool is_row = group < {} && base + group < {};", taken, rows);
    out.line("const {} row = is_row ? base + group : {};", type, rows - 1);
  } else {
    declare_next_row(out);
    out.open(
        "for ({0} row = ({0})blockIdx.x * {1} + group; row < {2}; row += ({0})gridDim.x * {1}) {{",
        type, map.rows_at_once, rows);
    wait_for_row(out);
  }
  render_row(out);
  out.close();
}

// Rows of which nothing is reduced: those whose loads are issued together are `turn`s.
void Rows::render_rows_in_flight(SourceWriter& out) {
  const ThreadMap& map = text_.map();
  const std::string_view type = text_.row_type();
  const int64_t rows = text_.loop().num_rows();
  const std::string stride = map.tiles_columns
                                 ? fmt::format("{}", map.rows_at_once)
                                 : fmt::format("({})gridDim.x * {}", type, map.rows_at_once);
  const std::string first =
      map.tiles_columns ? "group"
                        : fmt::format("({})blockIdx.x * {} + group", type, map.rows_at_once);
  const Sweep& sweep = text_.plan().sweeps()[0];
  ColumnWork work{sweep.values, sweep.sinks, {}, 0, false, map.width, {}};
  work.step = fmt::format("[turn * {} + step]", map.steps);
  std::vector<int> ahead = columns_.loads_ahead(work);
  const bool waits =
      std::any_of(ahead.begin(), ahead.end(), [&](int id) { return at(id).access.index >= 0; });
  if (waits) work.step.clear(), ahead.clear();
  out.line("const {} stride = {};", type, stride);
  out.open("for ({0} base = {1}; base < {2}; base += stride * {3}) {{", type, first, rows,
           map.rows_in_flight);
  columns_.declare_packs(out, ahead, map.width, fmt::format("{}", map.rows_in_flight * map.steps));
  for (const bool computes : {false, true}) {
    if (!computes && ahead.empty()) continue;
    out.pragma("unroll");
    out.open("for (int turn = 0; turn < {}; ++turn) {{", map.rows_in_flight);
    out.line("const {} row = base + turn * stride;", type);
    out.line("if (row >= {}) continue;", rows);
    for (const std::string& line : text_.row_index_lines()) out.line("{}", line);
    if (computes) {
      for (int level = 0; level <= text_.loop().num_sweeps; ++level) declare_row_values(out, level);
      for (const int id : sweep.values) prepare(out, id);
    }
    open_columns(out);
    computes ? columns_.compute(out, work) : columns_.read_ahead(out, work, ahead);
    out.close();
    out.close();
  }
  out.close();
}

// Two rows in shared memory: one is worked on, the copy engine brings the other.
void Rows::declare_next_row(SourceWriter& out) {
  if (text_.map().loads_of_next_row.empty()) return;
  out.line("__shared__ u64 arrivals[2];");
  out.line("int turn = 0;");
  out.open("if (threadIdx.x == 0) {{");
  out.line("start_arrivals(arrivals);");
  out.open("if (blockIdx.x < {}) {{", text_.loop().num_rows());
  start_next_row(out, fmt::format("({})blockIdx.x", text_.row_type()), "0");
  out.close();
  out.close();
  out.line("__syncthreads();");
}

void Rows::start_next_row(SourceWriter& out, const std::string& row,
                          const std::string& half) const {
  out.line("const {} row = {};", text_.row_type(), row);
  for (const std::string& line : text_.row_index_lines()) out.line("{}", line);
  const int64_t inner = text_.loop().inner_extent;
  int64_t num_bytes = 0;
  for (const int id : text_.map().loads_of_next_row) {
    num_bytes += inner * kept_bytes(text_.loop(), at(id));
  }
  out.line("expect_bytes(arrivals + {}, {});", half, num_bytes);
  for (const int id : text_.map().loads_of_next_row) {
    out.line("bring(k{0}_rows + {1} * {2}, b{3} + ({4}), {5}, arrivals + {1});", id, half, inner,
             at(id).access.buffer, text_.start(at(id).access),
             inner * kept_bytes(text_.loop(), at(id)));
  }
}

// The other half is free once all threads have left the row before.
void Rows::wait_for_row(SourceWriter& out) const {
  const ThreadMap& map = text_.map();
  if (map.loads_of_next_row.empty()) return;
  out.line("const int half = turn % 2, times = turn / 2;");
  out.line("++turn;");
  out.line("__syncthreads();");
  out.open("if (threadIdx.x == 0 && row + ({})gridDim.x < {}) {{", text_.row_type(),
           text_.loop().num_rows());
  out.line("const {0} next = row + ({0})gridDim.x;", text_.row_type());
  start_next_row(out, "next", "(1 - half)");
  out.close();
  for (const int id : map.loads_of_next_row) {
    out.line("const {0}* const k{1} = k{1}_rows + half * {2};",
             storage_type_name(text_.dtype_of(at(id))), id, text_.loop().inner_extent);
  }
  out.line("wait_for_arrival(arrivals + half, times % 2);");
}

void Rows::render_row(SourceWriter& out) {
  const ThreadMap& map = text_.map();
  for (const std::string& line : text_.row_index_lines()) out.line("{}", line);
  if (map.in_registers) {
    for (const int id : text_.plan().row_buffers()) {
      out.line("{} k{}[{}];", columns_.pack_type(id, map.width), id, map.steps);
    }
  }
  for (int sweep = 0; sweep <= text_.loop().num_sweeps; ++sweep) {
    declare_row_values(out, sweep);
    if (sweep == 0 && segments_.is_shared()) {
      segments_.sum_all(out);
      out.line("if (!is_row) continue;");
    }
    if (sweep < text_.loop().num_sweeps) render_sweep(out, sweep);
  }
  render_row_sinks(out);
  // The next row's first exchange must not overwrite what is still being read.
  if (map.threads_per_row > 32 && num_reducing_sweeps() == 1) out.line("{}", wait());
}

void Rows::declare_row_values(SourceWriter& out, int sweep) const {
  for (int id = 0; id < text_.size(); ++id) {
    const Instruction& i = at(id);
    const bool is_value = !is_sink(i) && i.kind != Kind::kReduce && i.kind != Kind::kConstant;
    if (i.domain == Domain::kRow && is_value && i.sweep == sweep) {
      text_.declare(out, id, text_.row_value(id));
    }
  }
}

void Rows::prepare(SourceWriter& out, int id) {
  if (is_prepared_[id] || !text_.is_along_row(id)) return;
  is_prepared_[id] = true;
  text_.declare(out, id, text_.row_value(id));
}

// The loop over a thread's packs of columns.
void Rows::open_columns(SourceWriter& out) const {
  const ThreadMap& map = text_.map();
  const int64_t inner = text_.loop().inner_extent;
  if (!map.in_registers) {
    out.pragma("unroll 4");
    out.open("for ({} column = lane * {}; column < {}; column += {}) {{", text_.column_type(),
             map.width, inner, map.threads_per_row * map.width);
    return;
  }
  out.pragma("unroll");
  out.open("for (int step = 0; step < {}; ++step) {{", map.steps);
  out.line("const {} column = {}(step * {} + lane) * {};", text_.column_type(),
           map.tiles_columns ? "low + " : "", map.threads_per_row, map.width);
  if (inner % map.columns_of_block() != 0) out.line("if (column >= {}) continue;", inner);
}

void Rows::render_sweep(SourceWriter& out, int number) {
  const Sweep& sweep = text_.plan().sweeps()[number];
  if (sweep.sinks.empty() && sweep.kept.empty()) return;
  const ThreadMap& map = text_.map();
  for (const int id : sweep.values) prepare(out, id);
  if (!segments_.is_shared()) {
    for (const int id : sweep.segment_sums) segments_.sum(out, id);
  }
  if (must_wait_before_stores(number)) out.line("{}", wait());
  std::vector<int> reductions;
  for (const int id : sweep.sinks) {
    if (at(id).kind != Kind::kReduce) continue;
    reductions.push_back(id);
    out.line("{} v{} = {};", text_.c_type(id), id, text_.zero(id));
  }
  ColumnWork work{sweep.values, sweep.sinks, sweep.kept, number, true, map.width, {}};
  std::erase_if(work.kept, [&](int id) { return columns_.comes_ahead(id); });
  out.open("{{  // sweep {}", number);
  if (map.in_registers) {
    work.step = "[step]";
    const std::vector<int> ahead = columns_.loads_ahead(work);
    std::vector<int> passing = ahead;  // those that no later sweep needs
    std::erase_if(passing, [&](int id) {
      return std::find(sweep.kept.begin(), sweep.kept.end(), id) != sweep.kept.end();
    });
    columns_.declare_packs(out, passing, map.width, fmt::format("{}", map.steps));
    if (!ahead.empty()) {
      open_columns(out);
      columns_.read_ahead(out, work, ahead);
      out.close();
    }
  }
  open_columns(out);
  columns_.compute(out, work);
  out.close();
  out.close();
  reduce(out, reductions);
}

// Of a group, then all its threads have the result.
void Rows::reduce(SourceWriter& out, const std::vector<int>& ids) const {
  const ThreadMap& map = text_.map();
  const int lanes = std::min(map.threads_per_row, 32);
  if (ids.empty()) return;
  for (const int id : ids) {
    if (map.threads_per_row == 1) continue;
    out.line("v{0} = reduce_lanes<{1}, {2}>(v{0});", id, text_.op_name(at(id)), lanes);
    if (map.threads_per_row > 32) {
      out.line("if (lane % 32 == 0) warps{0}[group][lane / 32] = v{0};", id);
    }
  }
  if (map.threads_per_row > 32) {
    out.line("{}", wait());
    for (const int id : ids) {
      out.line("v{0} = reduce_warps<{1}, {2}>(warps{0}[group]);", id, text_.op_name(at(id)),
               map.threads_per_row / 32);
    }
  }
  for (const int id : ids) {
    if (text_.types().is_narrowed(id)) out.line("const int n{0} = narrow(v{0});", id);
  }
}

int Rows::num_reducing_sweeps() const {
  std::set<int> sweeps;
  for (int id = 0; id < text_.size(); ++id) {
    if (at(id).kind == Kind::kReduce) sweeps.insert(at(id).sweep);
  }
  return static_cast<int>(sweeps.size());
}

// A row value may have been read from a place that another thread of the group now stores to; a
// reduction in between has waited already.
bool Rows::must_wait_before_stores(int sweep) const {
  if (text_.map().threads_per_row == 1) return false;
  const auto& loop = text_.loop();
  const bool stores =
      std::any_of(loop.instructions.begin(), loop.instructions.end(), [&](const Instruction& i) {
        return i.kind == Kind::kStore && i.domain == Domain::kElement && i.sweep == sweep;
      });
  if (!stores) return false;
  for (const Instruction& load : loop.instructions) {
    const bool is_row_load = load.kind == Kind::kLoad && load.domain == Domain::kRow &&
                             load.sweep <= sweep && text_.may_change(load.access.buffer);
    if (!is_row_load) continue;
    const bool waits =
        std::any_of(loop.instructions.begin(), loop.instructions.end(), [&](const Instruction& i) {
          return i.kind == Kind::kReduce && i.sweep >= load.sweep && i.sweep < sweep;
        });
    if (!waits) return true;
  }
  return false;
}

// By one thread of the group; the others have read what it may overwrite.
void Rows::render_row_sinks(SourceWriter& out) const {
  std::vector<int> ids;
  bool may_overwrite = false;
  for (int id = 0; id < text_.size(); ++id) {
    if (is_sink(at(id)) && at(id).domain == Domain::kRow) ids.push_back(id);
    may_overwrite |= at(id).kind == Kind::kLoad && text_.may_change(at(id).access.buffer);
  }
  if (ids.empty()) return;
  if (may_overwrite && text_.map().threads_per_row > 1) out.line("{}", wait());
  out.open("if (lane == 0) {{");
  for (const int id : ids) {
    const Instruction& i = at(id);
    const std::string value = text_.operand(i.operands[0], text_.types().of(id));
    if (i.kind == Kind::kAccumulate) {
      out.line("{}", accumulators_.update(id, value));
    } else {
      out.line("b{}[{}] = {};", i.access.buffer, text_.start(i.access),
               store_text(text_.dtype_of(i), value));
    }
  }
  out.close();
}

}  // namespace monograph::codegen::cuda
