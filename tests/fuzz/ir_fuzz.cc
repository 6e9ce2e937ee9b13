#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "ir/loop/loop_parser.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

// Any text as a graph, and as a Loop. The verifier takes whatever parses; what it finds sound is
// printed, and parses again to the same hash.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto graph = monograph::ir::parse_graph(text);
    if (!monograph::ir::verify(*graph).empty()) return 0;
    const auto again = monograph::ir::parse_graph(monograph::ir::to_text(*graph));
    if (again->hash() != graph->hash()) std::abort();
  } catch (const monograph::UserError&) {  // refused with a message: as it should be
  }
  try {
    const monograph::ir::Loop loop = monograph::ir::parse_loop(text);
    if (monograph::ir::parse_loop(loop.str()).hash() != loop.hash()) std::abort();
  } catch (const monograph::UserError&) {
  } catch (const monograph::InternalError&) {  // its verifier's: a Loop is our own making
  }
  return 0;
}
