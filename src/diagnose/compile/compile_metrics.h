#pragma once

#include <string>
#include <string_view>

#include "diagnose/compile/compile_log.h"
#include "diagnose/compile/json_fields.h"

namespace monograph::diagnose {

// Reads the object at `root` ("compilation_metrics" or "bwd_compilation_metrics"), of the versions
// that give seconds and of those that give microseconds. Phases are exclusive: "dynamo", "aot
// autograd", "inductor", "code generation", "triton".
Compilation parse_compile_metrics(const JsonFields& fields, const std::string& root);

// A Python traceback: the exception's name without its module, its message, and the innermost frame
// of the user's code.
void parse_python_error(std::string_view traceback, Compilation& failed);

// Whether the exception means that PyTorch went on without compiling the function.
bool is_unsupported(std::string_view fail_type);

// Whether it did so because the function recompiled too often.
bool is_limit(const Compilation& compilation);

// "Dynamo recompile limit exceeded ... (currently set to 8) ... Limit type: recompile_limit"
LimitHit parse_limit_failure(std::string_view reason);

}  // namespace monograph::diagnose
