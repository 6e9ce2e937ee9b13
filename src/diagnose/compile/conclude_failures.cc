#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/compile/graph_break.h"
#include "diagnose/compile/job.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

struct Failure {
  const Compilation* first = nullptr;
  std::set<int> ranks;
  std::int64_t count = 0;
};

std::string failure_advice(std::string_view type, std::string_view reason) {
  const auto has = [&](std::string_view word) {
    return type.find(word) != std::string_view::npos || reason.find(word) != std::string_view::npos;
  };
  if (has("FailOnRecompileLimitHit")) {
    return "cure the recompiles (see the recompile findings), or raise "
           "torch._dynamo.config.recompile_limit";
  }
  if (has("BackendCompilerFailed") || has("InductorError") || has("LoweringException")) {
    return "find the failing part with TORCHDYNAMO_REPRO_AFTER=aot and the minifier; backend="
           "'aot_eager' tells whether the graph or the code generator is at fault; "
           "torch._dynamo.config.suppress_errors = True runs the function uncompiled meanwhile";
  }
  if (has("out of memory") || has("OutOfMemory")) {
    return "lower the batch size or the autotuning effort (mode='default')";
  }
  if (has("Unsupported")) {
    const GraphBreak as_break = parse_graph_break(
        fmt::format("Graph break in user code at :\nGraph Break Reason: {}", reason));
    return "fullgraph=True makes this break an error: " + break_advice(as_break);
  }
  if (has("TorchRuntimeError")) {
    return "the operator fails on these inputs in eager mode too: check shapes and dtypes at the "
           "place named";
  }
  if (has("UserError") || has("Constraint")) {
    return "the code specialises a dimension that was declared dynamic: drop the declaration or "
           "the specialisation named in the message";
  }
  return "run with TORCHDYNAMO_VERBOSE=1 for the full stack, and with backend='eager' to tell "
         "tracing from code generation";
}

}  // namespace

void conclude_failures(const CompileJob& job, Report& report) {
  std::map<std::string, Failure> failures;
  for (const auto& [rank, value] : job.all(&CompileFacts::compilations)) {
    if (value->fail_type.empty()) continue;
    Failure& failure = failures[value->fail_type + "|" + value->fail_reason.substr(0, 120)];
    // The one that knows the function.
    if (failure.first == nullptr || failure.first->function.name.empty()) failure.first = value;
    failure.ranks.insert(rank);
    ++failure.count;
  }
  for (const auto& [key, failure] : failures) {
    const Compilation& value = *failure.first;
    Finding finding;
    finding.code = "compile_failed";
    finding.severity = Severity::kError;
    finding.weight = 1000;
    finding.count = failure.count;
    const bool has_frame = value.fail_frame.line > 0;
    finding.where.ranks = known_ranks(failure.ranks);
    const std::string& function =
        value.function.name.empty() ? value.fail_frame.function : value.function.name;
    finding.where.frame = frame_label(function, value.compile_id);
    finding.where.file = has_frame ? value.fail_frame.file : value.function.file;
    finding.where.line = has_frame ? value.fail_frame.line : value.function.line;
    std::string reason = value.fail_reason.substr(0, 300);
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    finding.what = fmt::format("compiling {} failed with {}",
                               function.empty() ? "a function" : function, value.fail_type);
    finding.why = reason;
    finding.advice = failure_advice(value.fail_type, value.fail_reason);
    if (!value.fail_reason.empty()) finding.evidence.push_back(value.fail_reason.substr(0, 400));
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace monograph::diagnose
