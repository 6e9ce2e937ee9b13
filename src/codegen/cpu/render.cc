#include "codegen/cpu/render.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cpu/accumulators.h"
#include "codegen/cpu/addresses.h"
#include "codegen/source_writer.h"
#include "codegen/sweep_plan.h"
#include "codegen/value_types.h"

namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::Instruction;
using ir::InstructionKind;
using ir::Reduction;

constexpr double kParallelCost = 5e5;  // about 8 us of one core; less is not worth waking threads
constexpr int kRandomTile = 1024;      // columns whose random numbers are made at once

class Renderer {
 public:
  Renderer(const ir::Loop& loop, std::string_view name, const ir::Loop& bounds)
      : loop_(loop),
        name_(name),
        types_(loop),
        addresses_(loop, bounds),
        plan_(loop),
        is_parallel_(SweepPlan(bounds).cost() >= kParallelCost),
        accumulators_(loop, bounds, types_, addresses_),
        is_prepared_(loop.instructions.size(), false) {}

  std::string run() {
    out_.open("extern \"C\" void {}(void* const* args) {{", name_);
    render_arguments();
    render_scalars();
    if (has_rows()) render_blocks();
    accumulators_.finish(out_);
    // Last, as a scalar may be updated in place.
    render_stores(Domain::kScalar);
    out_.close();
    return out_.take();
  }

 private:
  const Instruction& at(int id) const { return loop_.instructions[id]; }
  int size() const { return static_cast<int>(loop_.instructions.size()); }
  std::string_view c_type(int id) const { return c_type_name(types_.of(id)); }
  static bool is_sink(const Instruction& i) {
    return i.kind == InstructionKind::kStore || i.kind == InstructionKind::kAccumulate;
  }
  bool has_rows() const {
    return std::any_of(
        loop_.instructions.begin(), loop_.instructions.end(),
        [](const Instruction& i) { return is_sink(i) && i.domain != Domain::kScalar; });
  }

  // --- values ---------------------------------------------------------------------------------

  std::string text(int id) const { return text(id, types_.of(id)); }

  // The value as an operand of type `wanted`.
  std::string text(int id, CType wanted) const {
    if (at(id).kind == InstructionKind::kConstant) {
      const std::string constant = constant_text(at(id).value, wanted);
      return constant[0] == '-' ? "(" + constant + ")" : constant;
    }
    if (wanted == CType::kInt && types_.of(id) == CType::kLong) {
      return types_.fits_int(id) ? fmt::format("(int)v{}", id) : fmt::format("n{}", id);
    }
    return fmt::format("v{}", id);
  }

  std::string apply(int id) const {
    const Instruction& i = at(id);
    const CType operation = types_.operation_type(id);
    std::vector<std::string> operands;
    for (size_t o = 0; o < i.operands.size(); ++o) {
      const bool is_condition = i.op == ir::ScalarOp::kWhere && o == 0;
      operands.push_back(text(i.operands[o], is_condition ? CType::kBool : operation));
    }
    return apply_text(i, operation, types_.of(id), operands);
  }

  std::string random(int id, const std::string& element) const {
    return fmt::format("philox_one({}, {}, {}, {})", element, text(at(id).operands[0]),
                       text(at(id).operands[1]), text(at(id).operands[2]));
  }

  // A value of scalar or row domain, or an element value that is the same along the row.
  std::string row_value(int id) const {
    const Instruction& i = at(id);
    switch (i.kind) {
      case InstructionKind::kLoad:
        return load_text(dtype_of(i),
                         fmt::format("b{}[{}]", i.access.buffer, addresses_.first(i.access)));
      case InstructionKind::kIndex:
        return addresses_.first(i.access);
      case InstructionKind::kArgument:
        return fmt::format("((const long*)args[{}])[{}]", loop_.buffers.size(), i.argument);
      case InstructionKind::kPhilox:
        return random(id, addresses_.first(i.access));
      default:
        return apply(id);
    }
  }

  ir::DType dtype_of(const Instruction& i) const { return loop_.buffers[i.access.buffer].dtype; }

  static std::string column(const std::string& base, int64_t stride) {
    if (stride == 0) return base + "[0]";
    return stride == 1 ? base + "[i]" : fmt::format("{}[{}L * i]", base, stride);
  }

  // An element value at column i; its pointers and starts were made by prepare().
  std::string element_value(int id) const {
    const Instruction& i = at(id);
    switch (i.kind) {
      case InstructionKind::kLoad:
        return load_text(dtype_of(i), column(fmt::format("p{}", id), i.access.inner_stride));
      case InstructionKind::kIndex:
        return fmt::format("x{} + {}{} * i", id, i.access.inner_stride,
                           types_.of(id) == CType::kLong ? "L" : "");
      case InstructionKind::kPhilox:
        if (fills_tile(id)) return fmt::format("u{0}[h{0} + (i - tile)]", id);
        return random(id, fmt::format("x{} + {}L * i", id, i.access.inner_stride));
      default:
        return apply(id);
    }
  }

  void declare(int id, const std::string& value) {
    out_.line("const {} v{} = {};", c_type(id), id, value);
    if (types_.is_narrowed(id)) out_.line("const int n{0} = narrow(v{0});", id);
  }

  bool is_along_row(int id) const {  // an element value that does not change along the row
    const Instruction& i = at(id);
    const bool has_start = i.kind == InstructionKind::kLoad || i.kind == InstructionKind::kIndex ||
                           i.kind == InstructionKind::kPhilox;
    return has_start && i.access.inner_stride == 0;
  }

  bool fills_tile(int id) const {
    return at(id).kind == InstructionKind::kPhilox && at(id).domain == Domain::kElement &&
           at(id).access.inner_stride == 1;
  }

  // --- outside the rows -----------------------------------------------------------------------

  void render_arguments() {
    for (size_t b = 0; b < loop_.buffers.size(); ++b) {
      const bool is_input = loop_.buffers[b].use == ir::LoopBuffer::Use::kInput;
      const std::string_view type = storage_type_name(loop_.buffers[b].dtype);
      out_.line("{0}{1}* const b{2} = ({0}{1}*)args[{2}];", is_input ? "const " : "", type, b);
    }
  }

  void render_scalars() {
    for (int id = 0; id < size(); ++id) {
      const bool is_value = !is_sink(at(id)) && at(id).kind != InstructionKind::kConstant;
      if (at(id).domain == Domain::kScalar && is_value) declare(id, row_value(id));
    }
  }

  void render_stores(Domain domain) {
    for (int id = 0; id < size(); ++id) {
      const Instruction& i = at(id);
      if (i.domain != domain || !is_sink(i)) continue;
      if (i.kind == InstructionKind::kAccumulate) {
        out_.line("{}", accumulators_.update_text(id, text(i.operands[0])));
      } else {
        out_.line("b{}[{}] = {};", i.access.buffer, addresses_.first(i.access),
                  store_text(dtype_of(i), text(i.operands[0], types_.of(id))));
      }
    }
  }

  void render_blocks() {
    if (loop_.num_blocks == 1) {
      out_.open("{{");
    } else {
      if (is_parallel_) out_.pragma("omp parallel for schedule(static)");
      out_.open("for (int block = 0; block < {}; ++block) {{", loop_.num_blocks);
    }
    if (addresses_.splits_inner()) {
      const int64_t inner = loop_.inner_extent, step = addresses_.capacity();
      const std::string_view type = addresses_.column_type();
      out_.line("const {} low = {}L * block < {} ? {}L * block : {};", type, step, inner, step,
                inner);
      out_.line("const {0} length = {1} - low < {2} ? {1} - low : {2};", type, inner, step);
    }
    render_block();
    out_.close();
  }

  void render_block() {
    for (const int id : plan_.row_buffers()) {
      declare_array(out_, c_type(id), fmt::format("k{}", id), addresses_.capacity());
    }
    for (int id = 0; id < size(); ++id) {
      if (fills_tile(id)) out_.line("alignas(64) float u{}[{}];", id, random_tile() + 16);
    }
    accumulators_.open_block(out_);
    const std::string_view type = addresses_.row_type();
    const bool splits_rows = loop_.split == ir::Loop::Split::kRows && loop_.num_blocks > 1;
    if (splits_rows) {
      out_.open(
          "for ({0} row = {1}L * block / {2}, end = {1}L * (block + 1) / {2}; row < end; ++row) {{",
          type, loop_.num_rows(), loop_.num_blocks);
    } else {
      out_.open("for ({} row = 0; row < {}; ++row) {{", type, loop_.num_rows());
    }
    render_row();
    out_.close();
    accumulators_.close_block(out_);
    for (const int id : plan_.row_buffers()) {
      release_array(out_, fmt::format("k{}", id), addresses_.capacity());
    }
  }

  int64_t random_tile() const { return std::min<int64_t>(kRandomTile, addresses_.capacity()); }

  // --- one row --------------------------------------------------------------------------------

  void render_row() {
    for (const std::string& line : addresses_.row_index_lines()) out_.line("{}", line);
    for (int sweep = 0; sweep <= loop_.num_sweeps; ++sweep) {
      for (int id = 0; id < size(); ++id) {
        const bool is_value = !is_sink(at(id)) && at(id).kind != InstructionKind::kReduce &&
                              at(id).kind != InstructionKind::kConstant;
        if (at(id).domain == Domain::kRow && is_value && at(id).sweep == sweep) {
          declare(id, row_value(id));
        }
      }
      if (sweep < loop_.num_sweeps) render_sweep(sweep);
    }
    render_stores(Domain::kRow);
  }

  void render_sweep(int number) {
    const Sweep& sweep = plan_.sweeps()[number];
    if (sweep.sinks.empty() && sweep.kept.empty()) return;
    for (const int id : sweep.segment_sums) fill_segment_sum(id);
    for (const int id : sweep.values) {
      if (!plan_.is_buffered(id, number)) prepare(id);
    }
    for (const int id : sweep.sinks) prepare_sink(id);
    const bool is_tiled = std::any_of(sweep.values.begin(), sweep.values.end(), [&](int id) {
      return fills_tile(id) && !plan_.is_buffered(id, number);
    });
    if (is_tiled) {
      render_tiles(number);
    } else {
      render_columns(number, "0", addresses_.length());
    }
    for (const int id : sweep.sinks) finish_sink(id);
  }

  // Pointers, starts and values that hold for the whole row.
  void prepare(int id) {
    if (is_prepared_[id]) return;
    is_prepared_[id] = true;
    const Instruction& i = at(id);
    if (is_along_row(id)) {
      declare(id, row_value(id));
    } else if (i.kind == InstructionKind::kLoad) {
      out_.line("const {}* const p{} = b{} + ({});", storage_type_name(dtype_of(i)), id,
                i.access.buffer, addresses_.first(i.access));
    } else if (i.kind == InstructionKind::kIndex) {
      out_.line("const {} x{} = {};", c_type(id), id, addresses_.first(i.access));
    } else if (i.kind == InstructionKind::kPhilox) {
      out_.line("const long x{} = {};", id, addresses_.first(i.access));
    }
  }

  void prepare_sink(int id) {
    const Instruction& i = at(id);
    if (i.kind == InstructionKind::kStore) {
      out_.line("{}* const q{} = b{} + ({});", storage_type_name(dtype_of(i)), id, i.access.buffer,
                addresses_.first(i.access));
    } else if (i.kind == InstructionKind::kReduce) {
      out_.line("{} v{} = {};", c_type(id), id, initial_text(i.reduction, types_.of(id)));
      if (tracks_nan(id)) out_.line("int bad{} = 0;", id);
    }
  }

  // The maximum of an `omp simd` loop drops NaN, so the loop looks for it beside.
  bool tracks_nan(int id) const {
    const CType type = types_.of(id);
    return at(id).reduction == Reduction::kMax && (type == CType::kFloat || type == CType::kDouble);
  }

  void finish_sink(int id) {
    if (at(id).kind != InstructionKind::kReduce) return;
    if (tracks_nan(id)) {
      out_.line("if (bad{0}) v{0} = {1};", id, constant_text(__builtin_nan(""), types_.of(id)));
    }
    if (types_.is_narrowed(id)) out_.line("const int n{0} = narrow(v{0});", id);
  }

  void fill_segment_sum(int id) {
    const Instruction& i = at(id);
    ir::Access values = i.access;
    values.index = -1;
    const std::string_view type = addresses_.column_type();
    const std::string length = addresses_.length();
    out_.line("for ({} i = 0; i < {}; ++i) k{}[i] = 0;", type, length, id);
    out_.open("for (long s = {}; s < {}; ++s) {{", text(i.operands[0], CType::kLong),
              text(i.operands[1], CType::kLong));
    out_.line("const {}* const p = b{} + ({} + {}L * b{}[s]);", storage_type_name(dtype_of(i)),
              i.access.buffer, addresses_.first(values), i.access.index_stride, i.order_buffer);
    out_.pragma("omp simd");
    out_.line("for ({} i = 0; i < {}; ++i) k{}[i] += {};", type, length, id,
              load_text(dtype_of(i), column("p", i.access.inner_stride)));
    out_.close();
  }

  // Random numbers are made four at a time, a tile of columns ahead of their use.
  void render_tiles(int number) {
    const std::string length = addresses_.length();
    const int64_t tile = random_tile();
    out_.open("for (long tile = 0; tile < {}; tile += {}) {{", length, tile);
    out_.line("const long tile_end = {0} - tile < {1} ? {0} : tile + {1};", length, tile);
    for (const int id : plan_.sweeps()[number].values) {
      if (!fills_tile(id) || plan_.is_buffered(id, number)) continue;
      out_.line("const int h{0} = philox_fill(u{0}, x{0} + tile, tile_end - tile, {1}, {2}, {3});",
                id, text(at(id).operands[0]), text(at(id).operands[1]), text(at(id).operands[2]));
    }
    render_columns(number, "tile", "tile_end");
    out_.close();
  }

  void render_columns(int number, std::string_view begin, const std::string& end) {
    const Sweep& sweep = plan_.sweeps()[number];
    std::string clauses;
    for (const int id : sweep.sinks) clauses += clause(id);
    out_.pragma("omp simd" + clauses);
    out_.open("for ({0} i = {1}; i < {2}; ++i) {{", addresses_.column_type(), begin, end);
    for (const int id : sweep.values) {
      if (at(id).kind == InstructionKind::kConstant) continue;
      if (plan_.is_buffered(id, number)) {
        out_.line("const {0} v{1} = k{1}[i];", c_type(id), id);
      } else if (!is_along_row(id)) {
        out_.line("const {} v{} = {};", c_type(id), id, element_value(id));
      }
    }
    for (const int id : sweep.kept) out_.line("k{}[i] = {};", id, text(id));
    // Stores come last: an output may be the memory of an input.
    for (const bool stores : {false, true}) {
      for (const int id : sweep.sinks) {
        if ((at(id).kind == InstructionKind::kStore) == stores) render_sink(id);
      }
    }
    out_.close();
  }

  std::string clause(int id) const {
    const Instruction& i = at(id);
    if (i.kind == InstructionKind::kAccumulate) return accumulators_.clause(id);
    if (i.kind != InstructionKind::kReduce) return "";
    if (i.reduction == Reduction::kSum) return fmt::format(" reduction(+:v{})", id);
    return fmt::format(" reduction(max:v{}){}", id,
                       tracks_nan(id) ? fmt::format(" reduction(|:bad{})", id) : "");
  }

  void render_sink(int id) {
    const Instruction& i = at(id);
    const std::string value = text(i.operands[0]);
    if (i.kind == InstructionKind::kAccumulate) {
      out_.line("{}", accumulators_.update_text(id, value));
    } else if (i.kind == InstructionKind::kStore) {
      out_.line("{} = {};", column(fmt::format("q{}", id), i.access.inner_stride),
                store_text(dtype_of(i), value));
    } else if (i.reduction == Reduction::kSum) {
      out_.line("v{} += {};", id, value);
    } else {
      out_.line("v{0} = v{0} > {1} ? v{0} : {1};", id, value);
      if (tracks_nan(id)) out_.line("bad{0} |= {1} != {1};", id, value);
    }
  }

  const ir::Loop& loop_;
  std::string name_;
  ValueTypes types_;
  Addresses addresses_;
  SweepPlan plan_;
  bool is_parallel_;
  Accumulators accumulators_;
  std::vector<bool> is_prepared_;
  SourceWriter out_;
};

}  // namespace

std::string render(const ir::Loop& loop, std::string_view name, const ir::Loop* bounds) {
  ir::verify(loop);
  return Renderer(loop, name, bounds != nullptr ? *bounds : loop).run();
}

}  // namespace monograph::codegen
