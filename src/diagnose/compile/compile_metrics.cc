#include "diagnose/compile/compile_metrics.h"

#include <algorithm>

#include "diagnose/compile/graph_break.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

// The first of the two that is given, in seconds; 0 if neither is.
double seconds(const JsonFields& fields, const std::string& root, std::string_view micros,
               std::string_view plain) {
  const double us = fields.number(root + "/" + std::string(micros), -1);
  if (us >= 0) return us * 1e-6;
  return std::max(0.0, fields.number(root + "/" + std::string(plain), 0));
}

}  // namespace

Compilation parse_compile_metrics(const JsonFields& fields, const std::string& root) {
  Compilation result;
  result.finished = true;
  result.compile_id = fields.string(root + "/compile_id");
  result.function.name = fields.string(root + "/co_name");
  result.function.file = fields.string(root + "/co_filename");
  result.function.line = static_cast<int>(fields.integer(root + "/co_firstlineno", 0));
  result.start = fields.number(root + "/start_time", 0);
  result.graph_nodes = fields.integer(root + "/graph_node_count", -1);
  result.guards = fields.integer(root + "/guard_count", -1);
  result.fail_type = fields.string(root + "/fail_type");
  result.fail_reason = fields.string(root + "/fail_reason");
  result.fail_frame.file = fields.string(root + "/fail_user_frame_filename");
  result.fail_frame.line = static_cast<int>(fields.integer(root + "/fail_user_frame_lineno", 0));
  result.cudagraph_skip = fields.string(root + "/cudagraph_skip_reason");
  // Each phase contains the next.
  const double frame =
      seconds(fields, root, "dynamo_cumulative_compile_time_us", "entire_frame_compile_time_s");
  const double backend =
      seconds(fields, root, "aot_autograd_cumulative_compile_time_us", "backend_compile_time_s");
  const double inductor =
      seconds(fields, root, "inductor_cumulative_compile_time_us", "inductor_compile_time_s");
  const double code =
      seconds(fields, root, "inductor_code_gen_cumulative_compile_time_us", "code_gen_time_s");
  const double triton = seconds(fields, root, "triton_compile_time_us", "triton_compile_time_s");
  const double cumulative[] = {frame, backend, inductor, code, triton};
  const char* const names[] = {"dynamo", "aot autograd", "inductor", "code generation", "triton"};
  for (int i = 0; i < 5; ++i) {
    const double inner = i < 4 ? cumulative[i + 1] : 0;
    if (cumulative[i] > inner) result.phases[names[i]] = cumulative[i] - inner;
  }
  const double total = seconds(fields, root, "duration_us", "entire_frame_compile_time_s");
  result.seconds = std::max(total, std::max({frame, backend, inductor}));
  return result;
}

void parse_python_error(std::string_view traceback, Compilation& failed) {
  for (const SourceFrame& frame : parse_stack(traceback)) {
    if (!is_library_file(frame.file)) failed.fail_frame = frame;
  }
  // The last line that begins at the margin with "module.Name: message".
  std::string_view rest = traceback;
  failed.fail_type = "exception";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    const bool is_name = !name.empty() && name.size() < 100 &&
                         std::all_of(name.begin(), name.end(), [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '_' || c == '.';
                         });
    if (!is_name) continue;
    const bool names_error = name.ends_with("Error") || name.ends_with("Exception") ||
                             name.find("exc.") != std::string_view::npos ||
                             name.ends_with("Failed") || name.ends_with("Interrupt");
    if (!names_error) continue;
    if (failed.fail_reason.ends_with(" raised:")) {  // what the backend threw
      failed.fail_reason += " " + std::string(line);
      continue;
    }
    failed.fail_type = name.substr(name.rfind('.') + 1);
    failed.fail_reason = colon == std::string_view::npos ? "" : line.substr(colon + 1);
    while (failed.fail_reason.starts_with(' ')) failed.fail_reason.erase(0, 1);
  }
}

bool is_unsupported(std::string_view fail_type) {
  return fail_type == "Unsupported" || fail_type.ends_with("LimitExceeded") ||
         fail_type == "SkipFrame" || fail_type == "SkipCodeRecursiveException";
}

bool is_limit(const Compilation& compilation) {
  return compilation.fail_type.ends_with("LimitExceeded") ||
         compilation.fail_reason.find("limit exceeded") != std::string::npos ||
         compilation.fail_reason.find("_limit reached") != std::string::npos;
}

LimitHit parse_limit_failure(std::string_view reason) {
  LimitHit hit;
  for (const std::string_view option :
       {"accumulated_recompile_limit", "accumulated_cache_size_limit", "recompile_limit",
        "cache_size_limit"}) {
    if (hit.option.empty() && reason.find(option) != std::string_view::npos) hit.option = option;
  }
  if (hit.option.empty()) hit.option = "recompile_limit";
  constexpr std::string_view kSet = "currently set to ";
  const std::size_t at = reason.find(kSet);
  if (at == std::string_view::npos) return hit;
  for (const char c : reason.substr(at + kSet.size())) {
    if (c < '0' || c > '9' || hit.limit > 1'000'000) break;
    hit.limit = hit.limit * 10 + (c - '0');
  }
  return hit;
}

}  // namespace monograph::diagnose
