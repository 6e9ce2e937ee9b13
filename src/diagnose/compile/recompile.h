#pragma once

#include <string>
#include <string_view>

#include "diagnose/compile/compile_log.h"
#include "diagnose/compile/guard.h"

namespace monograph::diagnose {

// "Recompiling function f in /job/a.py:14" and the lines below, joined by "\n".
Recompile parse_recompile(std::string_view message);

// One reason, "3/2: tensor 'x' size mismatch ..."; what has no entry in front gets "" for it.
GuardFailure parse_failure(std::string_view line);

// "torch._dynamo hit config.recompile_limit (8)" and the lines below.
LimitHit parse_limit_hit(std::string_view message);

// "forward /job/a.py:9", "'forward' (/job/a.py:9)" or "forward /job/a.py line 9"
CompiledFunction parse_function_place(std::string_view text);

// "0/2" for "0/1"
std::string next_compile_id(std::string_view compile_id);

// The failure that tells why: the one by a guard that did not cause an earlier recompile of the
// function, else the newest entry's. The list holds one failure for each entry, not a history. Of
// failures by global state it is the one that names the fewest switches.
// `earlier` holds the keys of the causes of earlier recompiles.
const GuardFailure* cause_of(const Recompile& recompile, const std::vector<std::string>& earlier);

}  // namespace monograph::diagnose
