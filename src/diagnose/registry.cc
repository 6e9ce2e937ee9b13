#include "diagnose/reader.h"
#include "diagnose/text_log.h"

// What this room reads and concludes, one line each. A reader that is sure of its kind stands
// before one that takes what is left.
namespace monograph::diagnose {

std::span<const Reader> readers() {
  static const Reader kReaders[] = {
      {"text log", looks_like_text, read_text_log},  // last: takes any text
  };
  return kReaders;
}

std::span<const LineReaderEntry> line_readers() {
  static const std::vector<LineReaderEntry> kLineReaders = {
      // {"graph breaks and recompiles", make_torch_logs_reader},
  };
  return kLineReaders;
}

std::span<const Conclusion> conclusions() {
  static const std::vector<Conclusion> kConclusions = {
      // {"graph breaks", conclude_graph_breaks},
  };
  return kConclusions;
}

}  // namespace monograph::diagnose
