#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/compile.h"
#include "frontend/session/kernel_supply.h"
#include "frontend/session/options.h"
#include "runtime/mesh_context.h"

// Passes held to compile_timeout and suppress_errors. See docs/fallback.md.
namespace monograph::session {

// Which pass runs now, for whom it is waited.
class PassProgress {
 public:
  void begin(std::string_view pass) {
    const std::lock_guard lock(mutex_);
    name_ = pass;
  }
  std::string name() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  mutable std::mutex mutex_;
  std::string name_;
};

// True where passes may neither hang nor fail without being left out.
bool has_pass_fuse(const CompileOptions& options);

// Runs `work`, which runs passes on graphs. With a compile_timeout in a thread of its own, which is
// left behind where it has not ended by then: `work` must own all that it touches. With
// suppress_errors what it throws is told in the result, otherwise thrown. `mesh`: of ranks that
// give the work up together; null: this rank decides alone. The cause is empty where the work is
// done.
Fallback run_passes_within_limits(const CompileOptions& options, const runtime::MeshContext* mesh,
                                  const PassProgress& progress, std::function<void()> work);

// compiler::compile within the limits of the options. Where the passes hang or fail, `fallback`
// says so, a warning goes to stderr, and the step is compiled without those that lowering can do
// without; nothing where that fails, too.
std::optional<compiler::Compilation> compile_within_limits(const ir::Graph& graph,
                                                           passes::StateLayout& layout,
                                                           const CompileOptions& options,
                                                           const runtime::MeshContext* mesh,
                                                           Fallback& fallback);

}  // namespace monograph::session
