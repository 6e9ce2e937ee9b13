#include "compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "analysis/memory_classes.h"
#include "base/error.h"
#include "compiler/assign_memory.h"
#include "compiler/build_program.h"
#include "compiler/compile_unplaced.h"

namespace monograph::compiler {
namespace {

// Products of many rows keep a GPU busy; its cache holds no chunk anyway.
constexpr int64_t kGpuLossChunkBytes = int64_t{1} << 30;

// Of a step's time: what may be spent on making values again when nobody sets a budget. A GPU has
// other proportions, and memory enough.
constexpr double kFreeRecomputation = 0.02;

using Clock = std::chrono::steady_clock;

class Compiler {
 public:
  Compiler(passes::StateLayout& states, const PassOptions& options, const MemoryBudget& budget,
           std::span<const PipelineStep> steps)
      : states_(states), options_(options), steps_(steps), budget_(budget) {}
  // For compile_unplaced: memory is planned elsewhere, so nothing is made again to save some.
  Compiler(passes::StateLayout& states, const PassOptions& options, const ir::Program* like,
           std::vector<passes::LayoutBuffer>& buffers)
      : states_(states), options_(options), like_(like), buffers_(&buffers) {}

  Compilation run(const ir::Graph& traced) {
    result_.num_traced_nodes = traced.num_nodes();
    context_.link = options_.link;
    if (options_.device.is_cuda()) {
      context_.loss_chunk_bytes = kGpuLossChunkBytes;
      context_.joins_copies = true;
    }
    if (options_.loss_chunk_bytes > 0) context_.loss_chunk_bytes = options_.loss_chunk_bytes;
    if (!options_.device.is_cuda() && buffers_ == nullptr) {
      context_.set_memory_goal({.live_bytes = 0, .max_cost = kFreeRecomputation});
    }
    std::unique_ptr<ir::Graph> graph = traced.clone();
    if (options_.records_lineage) lineage_.emplace(*graph);
    result_.passes = run_passes(*graph, context_, options_, steps_, lineage(), &traced);
    const bool has_budget = budget_.bytes > 0 || budget_.fraction > 0;
    if (has_budget) {
      lower(graph->clone());
      fit(*graph);
    } else {
      lower(std::move(graph));
    }
    result_.recomputation = context_.recomputation();
    result_.left_out = context_.left_out();
    result_.remarks = context_.remarks();
    for (const passes::Remark& remark : layout_remarks_) result_.remarks.push_back(remark);
    return std::move(result_);
  }

 private:
  LineageRecorder* lineage() { return lineage_ ? &*lineage_ : nullptr; }

  void lower(std::unique_ptr<ir::Graph> graph) {
    const auto start = Clock::now();
    passes::PassContext context;
    context.set_pass("layout");
    std::optional<LineageRecorder> lineage = lineage_;  // of this try alone
    if (lineage) lineage->begin(*graph);
    const int num_nodes = graph->num_nodes();
    const passes::Layout layout = passes::assign_layout(*graph, states_, context);
    if (lineage) {
      lineage->end(*graph, "layout", graph->num_nodes() != num_nodes);  // adds copies
      result_.lineage = lineage->take();
    }
    UnplacedProgram built =
        build_unplaced_program(*graph, layout, options_.device, options_.deterministic, like_);
    if (buffers_ == nullptr) {
      result_.scratch = assign_memory(built.program, built.buffers);
    } else {
      *buffers_ = std::move(built.buffers);
    }
    result_.program = std::move(built.program);
    result_.graph = std::move(graph);
    layout_remarks_ = context.remarks();
    result_.lower_ns += std::chrono::nanoseconds(Clock::now() - start).count();
  }

  // The pass counts live bytes, the plan knows what they cost: it is made again after each try, and
  // the excess that it shows is the next goal.
  void fit(ir::Graph& graph) {
    const int64_t peak = result_.program.peak_bytes;
    int64_t limit = budget_.bytes > 0 ? budget_.bytes : peak;
    if (budget_.fraction > 0) {
      limit = std::min(limit, static_cast<int64_t>(budget_.fraction * static_cast<double>(peak)));
    }
    int64_t least = peak;
    while (result_.program.peak_bytes > limit) {
      const int64_t live = analysis::LiveRanges(graph).peak_bytes();
      context_.set_memory_goal({std::max<int64_t>(0, live - (result_.program.peak_bytes - limit)),
                                budget_.recompute_products});
      if (!rematerialize(graph)) fail(limit, peak, least);
      lower(graph.clone());
      least = std::min(least, result_.program.peak_bytes);
    }
  }

  bool rematerialize(ir::Graph& graph) {
    if (!run_again(kRematerialize, graph)) return false;
    run_again(kJoinCopies, graph);
    return true;
  }

  bool run_again(std::string_view name, ir::Graph& graph) {
    const auto step =
        std::find_if(steps_.begin(), steps_.end(),
                     [&](const PipelineStep& candidate) { return candidate.name == name; });
    const auto& disabled = options_.disabled;
    if (step == steps_.end()) return false;
    if (std::find(disabled.begin(), disabled.end(), name) != disabled.end()) return false;
    const PassOptions options = {.dump_dir = options_.dump_dir, .verify = options_.verify};
    result_.passes.push_back(run_passes(graph, context_, options, {step, 1}, lineage()).front());
    return result_.passes.back().changed;
  }

  [[noreturn]] void fail(int64_t limit, int64_t peak, int64_t least) const {
    throw_user_error(
        "memory budget of {:.1f} MB: the step takes {:.1f} MB, and {:.1f} MB at least when values "
        "are made again: give it more{}",
        limit / 1e6, peak / 1e6, least / 1e6,
        budget_.recompute_products ? "" : ", or recompute products too (recompute=products)");
  }

  passes::StateLayout& states_;
  const PassOptions& options_;
  const std::span<const PipelineStep> steps_ = pipeline();
  const MemoryBudget budget_;
  const ir::Program* const like_ = nullptr;
  std::vector<passes::LayoutBuffer>* const buffers_ = nullptr;  // null: memory is planned here
  passes::PassContext context_;
  std::optional<LineageRecorder> lineage_;      // where asked for
  std::vector<passes::Remark> layout_remarks_;  // of the last try
  Compilation result_;
};

}  // namespace

Compilation compile(const ir::Graph& traced, passes::StateLayout& states,
                    const PassOptions& options, const MemoryBudget& budget,
                    std::span<const PipelineStep> steps) {
  return Compiler(states, options, budget, steps).run(traced);
}

Compilation compile_unplaced(const ir::Graph& traced, passes::StateLayout& states,
                             const PassOptions& options, const ir::Program* like,
                             std::vector<passes::LayoutBuffer>& buffers) {
  return Compiler(states, options, like, buffers).run(traced);
}

}  // namespace monograph::compiler
