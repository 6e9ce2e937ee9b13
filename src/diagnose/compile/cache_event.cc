#include "diagnose/compile/cache_event.h"

#include <string>

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxComponentValue = 240;

}  // namespace

std::optional<CacheEvent> parse_cache_event(std::string_view artifact, const JsonFields& fields,
                                            CompileLogBuilder& builder) {
  const std::size_t cut = artifact.find("_cache_");
  if (cut == std::string_view::npos) return std::nullopt;
  CacheEvent event;
  event.cache = artifact.substr(0, cut);
  const std::string_view state = artifact.substr(cut + 7);
  if (state == "hit") {
    event.state = CacheState::kHit;
  } else if (state == "bypass") {
    event.state = CacheState::kBypass;
  } else if (state != "miss") {
    return std::nullopt;  // aotautograd_cache_hash repeats what hit and miss say
  }
  event.key = fields.string("key");
  event.reason = fields.string("cache_bypass_reason");
  fields.for_each_string("components", [&](std::string_view text) {
    // "[hash] name: value"
    const std::size_t close = text.find("] ");
    const std::size_t colon = text.find(": ", close);
    if (!text.starts_with('[') || colon == std::string_view::npos) return;
    event.components.push_back(
        builder.component({std::string(text.substr(close + 2, colon - close - 2)),
                           std::string(text.substr(1, close - 1)),
                           std::string(text.substr(colon + 2, kMaxComponentValue))}));
  });
  return event;
}

}  // namespace monograph::diagnose
