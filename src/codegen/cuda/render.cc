#include "codegen/cuda/render.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/cuda/accumulators.h"
#include "codegen/cuda/columns.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows.h"

namespace monograph::codegen::cuda {
namespace {

using ir::Domain;
using ir::Instruction;
using Kind = ir::InstructionKind;

class Renderer {
 public:
  Renderer(const ir::Loop& loop, std::string_view name, const ir::DeviceSpec& device)
      : device_(device), text_(loop, device), accumulators_(text_), name_(name) {}

  RenderedKernel run() {
    if (!has_rows()) {
      render_scalars_only();
    } else if (text_.map().is_flat) {
      render_flat();
    } else {
      render_rows();
    }
    if (needs_finish()) render_finish();
    return {out_.take(), std::move(launches_)};
  }

 private:
  const Instruction& at(int id) const { return text_.at(id); }
  bool has_rows() const {
    return any([](const Instruction& i) { return is_sink(i) && i.domain != Domain::kScalar; });
  }
  bool stores_scalars() const {
    return any([](const Instruction& i) { return is_sink(i) && i.domain == Domain::kScalar; });
  }
  template <typename Predicate>
  bool any(const Predicate& predicate) const {
    return std::any_of(text_.loop().instructions.begin(), text_.loop().instructions.end(),
                       predicate);
  }
  // A scalar may be stored where other blocks still read.
  bool needs_finish() const {
    return has_rows() &&
           (accumulators_.needs_finish() || (stores_scalars() && text_.num_blocks() > 1));
  }

  void open_kernel(const std::string& name, int threads, int blocks_at_once, int64_t num_blocks) {
    ir::KernelLaunch launch;
    launch.entry = name;
    launch.grid[0] = static_cast<uint32_t>(num_blocks);
    launch.block[0] = static_cast<uint32_t>(threads);
    launches_.push_back(launch);
    out_.line("extern \"C\" __global__ void __launch_bounds__({}, {})", threads, blocks_at_once);
    out_.open("{}({}) {{", name, text_.parameters());
  }

  // --- scalars

  bool is_scalar_value(int id) const {
    return at(id).domain == Domain::kScalar && !is_sink(at(id)) && at(id).kind != Kind::kConstant;
  }

  void render_scalars() {
    for (int id = 0; id < text_.size(); ++id) {
      if (is_scalar_value(id)) text_.declare(out_, id, text_.row_value(id));
    }
  }

  // Scalars that the other instructions refer to.
  std::vector<int> scalars_used() const {
    std::vector<bool> is_used(text_.size(), false);
    const bool stores_here = !needs_finish();
    for (int id = 0; id < text_.size(); ++id) {
      if (at(id).domain == Domain::kScalar && !(is_sink(at(id)) && stores_here)) continue;
      for (const int operand : at(id).operands) is_used[operand] = true;
      if (has_address(at(id)) && at(id).access.index >= 0) is_used[at(id).access.index] = true;
    }
    std::vector<int> ids;
    for (int id = 0; id < text_.size(); ++id) {
      if (is_used[id] && is_scalar_value(id)) ids.push_back(id);
    }
    return ids;
  }

  // Where they take long, one thread of a block computes them for all.
  void render_block_scalars() {
    const bool take_long = scalars_take_long(text_.loop());
    if (!take_long || text_.map().threads() == 1) return render_scalars();
    const std::vector<int> used = scalars_used();
    for (const int id : used) out_.line("__shared__ {} w{};", text_.c_type(id), id);
    out_.open("if (threadIdx.x == 0) {{");
    render_scalars();
    for (const int id : used) out_.line("w{0} = v{0};", id);
    out_.close();
    out_.line("__syncthreads();");
    for (const int id : used) text_.declare(out_, id, fmt::format("w{}", id));
  }

  void render_scalar_stores() {
    for (int id = 0; id < text_.size(); ++id) {
      const Instruction& i = at(id);
      if (!is_sink(i) || i.domain != Domain::kScalar) continue;
      out_.line("b{}[{}] = {};", i.access.buffer, text_.start(i.access),
                store_text(text_.dtype_of(i), text_.operand(i.operands[0], text_.types().of(id))));
    }
  }

  void render_own_scalar_stores() {  // of a launch of one block
    if (!stores_scalars() || needs_finish()) return;
    out_.line("__syncthreads();");
    out_.open("if (threadIdx.x == 0) {{");
    render_scalar_stores();
    out_.close();
  }

  void render_scalars_only() {
    open_kernel(name_, 1, 1, 1);
    render_scalars();
    render_scalar_stores();
    out_.close();
  }

  // --- rows

  void render_rows() {
    const ThreadMap& map = text_.map();
    const bool sums = !accumulators_.ids().empty();
    open_kernel(name_, map.threads(), sums || !map.in_registers ? map.blocks_at_once : 1,
                text_.num_blocks());
    render_block_scalars();
    Rows rows(text_, accumulators_);
    rows.render(out_);
    render_own_scalar_stores();
    out_.close();
    check(rows.shared_bytes() <= device_.shared_bytes_per_block,
          "a row of {} columns needs {} bytes of shared memory, {} has {}, in\n{}",
          text_.loop().inner_extent, rows.shared_bytes(), device_.name,
          device_.shared_bytes_per_block, text_.loop().str());
    launches_.back().shared_bytes = static_cast<uint32_t>(rows.shared_bytes());
  }

  // --- flat

  ColumnWork flat_work(int width) const {
    ColumnWork work;
    std::vector<bool> is_needed(text_.size(), false);
    for (int id = text_.size() - 1; id >= 0; --id) {
      if (at(id).domain != Domain::kElement) continue;
      if (is_sink(at(id))) is_needed[id] = true;
      if (!is_needed[id]) continue;
      for (const int operand : at(id).operands) is_needed[operand] = true;
    }
    for (int id = 0; id < text_.size(); ++id) {
      if (!is_needed[id] || at(id).domain != Domain::kElement) continue;
      (is_sink(at(id)) ? work.sinks : work.values).push_back(id);
    }
    work.reads_kept = false;
    work.width = width;
    return work;
  }

  // Row and column of the pack `number`, and what is the same along the row.
  void locate(int width, bool declares_values) {
    const ir::Loop& loop = text_.loop();
    const int64_t packs = loop.inner_extent / width;
    if (loop.num_rows() == 1) {
      out_.line("const {} row = 0, column = number * {};", number_type(), width);
    } else if (packs == 1) {
      out_.line("const {} row = number, column = 0;", number_type());
    } else {
      out_.line("const {} row = number / {};", number_type(), packs);
      out_.line("const {} column = (number - row * {}) * {};", number_type(), packs, width);
    }
    for (const std::string& line : text_.row_index_lines()) out_.line("{}", line);
    if (!declares_values) return;
    for (int id = 0; id < text_.size(); ++id) {
      const bool is_row = at(id).domain == Domain::kRow && at(id).kind != Kind::kConstant;
      if (is_row || text_.is_along_row(id)) text_.declare(out_, id, text_.row_value(id));
    }
  }

  int64_t num_packs() const {
    return text_.loop().inner_extent / text_.map().width * text_.loop().num_rows();
  }
  std::string_view number_type() const {
    const bool is_small = text_.loop().inner_extent * text_.loop().num_rows() < INT32_MAX / 2;
    return is_small ? "int" : "long";
  }

  void render_flat() {
    const ThreadMap& map = text_.map();
    open_kernel(name_, map.threads(), map.blocks_at_once, text_.num_blocks());
    render_block_scalars();
    accumulators_.open(out_, false);
    ColumnWork work = flat_work(map.width);
    const Columns columns(text_, accumulators_);
    const int block = map.threads() * map.steps;
    out_.open(
        "for ({0} base = ({0})blockIdx.x * {1} + threadIdx.x; base < {2}; base += "
        "({0})gridDim.x * {1}) {{",
        number_type(), block, num_packs());
    if (map.steps > 1) {
      work.step = "[step]";
      const std::vector<int> ahead = loads_before_row_values(columns, work);
      columns.declare_packs(out_, ahead, map.width, fmt::format("{}", map.steps));
      open_step();
      locate(map.width, false);
      columns.read_ahead(out_, work, ahead);
      out_.close();
    }
    open_step();
    locate(map.width, true);
    columns.compute(out_, work);
    out_.close();
    out_.close();
    render_rest(columns);
    accumulators_.close_all(out_);
    render_own_scalar_stores();
    out_.close();
  }

  // Loads through an index wait for it.
  std::vector<int> loads_before_row_values(const Columns& columns, ColumnWork& work) const {
    std::vector<int> ahead = columns.loads_ahead(work);
    const bool waits =
        std::any_of(ahead.begin(), ahead.end(), [&](int id) { return at(id).access.index >= 0; });
    if (!waits) return ahead;
    work.step.clear();
    return {};
  }

  void open_step() {
    const ThreadMap& map = text_.map();
    if (map.steps == 1) {
      out_.open("{{");
      out_.line("const {} number = base;", number_type());
      return;
    }
    out_.pragma("unroll");
    out_.open("for (int step = 0; step < {}; ++step) {{", map.steps);
    out_.line("const {} number = base + step * {};", number_type(), map.threads());
    if (num_packs() % (int64_t{map.threads()} * map.steps) != 0) {
      out_.line("if (number >= {}) continue;", num_packs());
    }
  }

  // Columns after the last whole pack, one a thread of the last block.
  void render_rest(const Columns& columns) {
    const int64_t inner = text_.loop().inner_extent;
    const int64_t rest = inner % text_.map().width;
    if (rest == 0) return;
    out_.open("if (blockIdx.x == gridDim.x - 1 && threadIdx.x < {}) {{", rest);
    out_.line("const {} number = {} + threadIdx.x;", number_type(), inner - rest);
    locate(1, true);
    columns.compute(out_, flat_work(1));
    out_.close();
  }

  // --- after all blocks

  void render_finish() {
    const bool stores = stores_scalars();
    out_.line("");
    open_kernel(name_ + "_finish", 256, 1, (accumulators_.columns_of_finish() + 31) / 32);
    const size_t sums = accumulators_.ids().size();
    launches_.back().grid[1] = static_cast<uint32_t>(sums + (stores ? 1 : 0));
    for (size_t number = 0; number < sums; ++number) accumulators_.finish(out_, number);
    if (stores) {
      out_.open("if (blockIdx.y == {} && blockIdx.x == 0 && threadIdx.x == 0) {{", sums);
      render_scalars();
      render_scalar_stores();
      out_.close();
    }
    out_.close();
  }

  const ir::DeviceSpec& device_;
  KernelText text_;
  Accumulators accumulators_;
  std::string name_;
  SourceWriter out_;
  std::vector<ir::KernelLaunch> launches_;
};

}  // namespace

RenderedKernel render(const ir::Loop& loop, std::string_view name, const ir::DeviceSpec& device) {
  ir::verify(loop);
  return Renderer(loop, name, device).run();
}

}  // namespace monograph::codegen::cuda
