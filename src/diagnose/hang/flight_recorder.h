#pragma once

#include <string_view>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {

// True for a JSON text that begins like a flight recorder dump.
bool looks_like_flight_recorder_json(std::string_view head);

// Reads one rank's dump, pickle or JSON, of any version from 2.3 to 2.10. The rank is the number
// that ends the file's name if the dump's groups allow it, else the only rank that is in all its
// groups. Throws UserError naming the path if the dump is damaged or its rank cannot be told.
Progress read_flight_recorder(std::string_view bytes, std::string_view path);

}  // namespace monograph::diagnose
