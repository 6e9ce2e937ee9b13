#pragma once

#include <optional>
#include <string_view>

#include "diagnose/compile/compile_log.h"
#include "diagnose/compile/json_fields.h"

namespace monograph::diagnose {

// Reads the document of an artifact "fx_graph_cache_miss", "aotautograd_cache_hit" or the like;
// nothing for other artifacts of caches. rank, compile_id and function stay unset. Components are
// shared through the builder.
std::optional<CacheEvent> parse_cache_event(std::string_view artifact, const JsonFields& fields,
                                            CompileLogBuilder& builder);

}  // namespace monograph::diagnose
