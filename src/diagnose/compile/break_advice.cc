#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "diagnose/compile/graph_break.h"

namespace monograph::diagnose {
namespace {

struct Rule {
  // Lower-case parts; all of one row's parts, parted by '&', must occur in reason or context.
  std::string_view pattern;
  std::string_view advice;
};

// Tried in order: special before general. Spellings of 2.2 to 2.15.
constexpr Rule kRules[] = {
    {"builtin&print|builtin operator `print`|builtinvariable(print)",
     "remove the print, or guard it with `if not torch.compiler.is_compiling():`; to keep it "
     "without "
     "a break, add print to torch._dynamo.config.reorderable_logging_functions"},
    {"logging.logger|logger|logging",
     "guard the log call with `if not torch.compiler.is_compiling():`, or add the logging function "
     "to torch._dynamo.config.reorderable_logging_functions (or ignore_logger_methods)"},
    {"warnings.warn|warn(",
     "issue the warning outside the compiled function, or guard it with `if not "
     "torch.compiler.is_compiling():`"},
    {"tensor.item|.item()|method item|item () {}|_local_scalar_dense|tensor.tolist|tolist",
     "keep the value on the device as a tensor; if the number itself is needed in the graph, set "
     "torch._dynamo.config.capture_scalar_outputs = True"},
    {"data-dependent jump|data-dependent branching|data dependent branching|generic_jump tensor|"
     "generic_jump",
     "replace the Python branch by torch.where, or by torch.cond for expensive sides; or take the "
     "decision outside the compiled function"},
    {"data-dependent assertion|assert",
     "use torch._assert_async(condition), or check outside the compiled function"},
    {"dynamic shape operator|dynamic.nonzero|nonzero|masked_select|unique|data dependent operator|"
     "data-dependent operator",
     "its output size depends on data: use a form of fixed size (torch.where with three arguments, "
     "a mask and a multiply), or set torch._dynamo.config.capture_dynamic_output_shape_ops = True"},
    {"tensor.numpy|.numpy()|method numpy|from_numpy|ndarray",
     "stay with torch operations; if numpy is needed, move that part outside the compiled function "
     "or wrap it with torch.library.custom_op"},
    {"tensor.backward|backward()|method backward|autograd.grad",
     "compile the forward (and loss) only and call backward() outside; or enable compiled autograd "
     "(torch._dynamo.config.compiled_autograd = True)"},
    {"torch.compiler.disable|torch._dynamo.disable|disabled function|`torch.compiler.disable()`|"
     "compiler.disable",
     "the function is excluded on purpose: call it outside the compiled region, or remove "
     "torch.compiler.disable if it is no longer needed"},
    {"torch._dynamo.graph_break()|user-inserted|dynamo.graph_break",
     "the break is written in the code: remove torch._dynamo.graph_break() if it is not wanted"},
    {"time function|time.time|perf_counter|posix.putenv|os.environ|environ",
     "read clocks and environment outside the compiled function and pass the value in"},
    {"builtin operator `open`|builtin: open|io.open|textiowrapper",
     "do file input and output outside the compiled function"},
    {"lr_scheduler.py",
     "the learning rate scheduler wraps optimizer.step: nothing to change, what is inside the step "
     "is compiled all the same"},
    {"context manager|genericcontextwrapping|contextwrapping",
     "enter the context manager outside the compiled function, or use one that the compiler knows "
     "(torch.no_grad, torch.autocast, torch.profiler.record_function)"},
    {"deepcopy", "copy outside the compiled function; inside, use clone()"},
    {"random|manual_seed",
     "use torch random functions with tensors (torch.rand, torch.randint), or draw outside the "
     "compiled function"},
    {"register_hook|hook",
     "register hooks outside the compiled function, once, or enable compiled autograd"},
    {"autograd.function|autogradfunction",
     "give the autograd.Function plain static methods (forward, backward) and avoid ctx features "
     "that the message names; or wrap it with torch.library.custom_op"},
    {"generator|yield",
     "turn the generator into a list or a plain loop, or call it outside the compiled function"},
    {"async_op=true|distributed collectives|processgroup|c10d",
     "use the functional collectives (torch.distributed._functional_collectives) or async_op=False "
     "inside compiled code"},
    {"recompile limit|cache limit", "cure the recompiles first: see the recompile findings"},
    {"fake tensor|faketensor|meta kernel|fake impl|does not support running with fake",
     "register a fake implementation for the operator: torch.library.register_fake"},
    {"marked as skipped|skipfiles|skip function|skipfunction|call_function userdefined|"
     "python extension|can't handle functions not implemented in python|builtin `",
     "the compiler cannot see into this function: wrap it with torch.library.custom_op if it "
     "computes on tensors, or call it outside the compiled function"},
    {"exception|try|raise",
     "keep try/except and raise outside the compiled function, or test the condition beforehand"},
    {"inline|call_method userdefinedobject|unsupported method call|unsupported function call|"
     "call_method",
     "the compiler does not know this call: replace it by torch operations, or move it outside the "
     "compiled function"},
    {"builtin operator|builtin:",
     "the compiler does not know this Python builtin for these arguments: replace it, or move it "
     "outside the compiled function"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Alternatives parted by '|', each of parts parted by '&'.
bool matches(std::string_view text, std::string_view pattern) {
  while (!pattern.empty()) {
    const std::size_t bar = std::min(pattern.find('|'), pattern.size());
    std::string_view parts = pattern.substr(0, bar);
    bool all = true;
    while (!parts.empty()) {
      const std::size_t end = std::min(parts.find('&'), parts.size());
      all = all && text.find(parts.substr(0, end)) != std::string_view::npos;
      parts.remove_prefix(std::min(parts.size(), end + 1));
    }
    if (all) return true;
    pattern.remove_prefix(std::min(pattern.size(), bar + 1));
  }
  return false;
}

// Names of calls in the spelling of other versions: "call_method TensorVariable() numpy () {}" is a
// call of .numpy(), "call_function BuiltinVariable(open) [...]" one of the builtin open.
std::string calls_in(std::string_view text) {
  constexpr std::string_view kMethod = "call_method ", kBuiltin = "builtinvariable(";
  std::string calls;
  if (const std::size_t at = text.find(kMethod); at != std::string_view::npos) {
    const std::size_t object = text.find(") ", at);
    if (object != std::string_view::npos) {
      const std::string_view rest = text.substr(object + 2);
      const std::string_view name = rest.substr(0, rest.find(' '));
      calls += fmt::format(" tensor.{0} .{0}() method {0}", name);
    }
  }
  if (const std::size_t at = text.find(kBuiltin); at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + kBuiltin.size());
    calls += fmt::format(" builtin operator `{}`", rest.substr(0, rest.find(')')));
  }
  return calls;
}

// Hints that say what to do, and not only that PyTorch's developers could do something.
bool is_useful(std::string_view hint) {
  for (const std::string_view start :
       {"Please report an issue", "Please file an issue", "This graph break",
        "It may be possible to write Dynamo", "If you think", "Your code may"}) {
    if (hint.starts_with(start)) return false;
  }
  return true;
}

}  // namespace

std::string break_advice(const GraphBreak& graph_break) {
  if (is_internal(graph_break)) {
    return "the break lies in PyTorch's own wrapper, once per call, and costs little: nothing to "
           "change in your code";
  }
  // What follows is a list of examples.
  const std::string explanation =
      graph_break.explanation.substr(0, graph_break.explanation.find("This function is either"));
  std::string text = lower(graph_break.reason + " " + graph_break.context + " " + explanation);
  text += calls_in(text);
  for (const Rule& rule : kRules) {
    if (matches(text, rule.pattern)) return std::string(rule.advice);
  }
  for (const std::string& hint : graph_break.hints) {
    if (is_useful(hint)) return hint;
  }
  return "move this line outside the compiled function, or rewrite it with torch operations; "
         "torch.compile(fullgraph=True) turns each break into an error at its line";
}

}  // namespace monograph::diagnose
