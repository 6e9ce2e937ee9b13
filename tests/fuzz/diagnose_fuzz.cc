#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "diagnose/finding.h"
#include "diagnose/input.h"
#include "diagnose/reader.h"
#include "diagnose/source.h"
#include "diagnose/text_log.h"

// Any bytes through one reader, all conclusions and all three forms of the report. The reader is
// named by the variable MONOGRAPH_FUZZ_READER; without it, by the bytes' content as in real use.
namespace {

using namespace monograph::diagnose;

const Reader* wanted_reader() {
  const char* name = std::getenv("MONOGRAPH_FUZZ_READER");
  if (name == nullptr) return nullptr;
  for (const Reader& reader : readers()) {
    if (reader.kind == name) return &reader;
  }
  std::fprintf(stderr, "no reader '%s'; there are:\n", name);
  for (const Reader& reader : readers()) {
    std::fprintf(stderr, "  %.*s\n", static_cast<int>(reader.kind.size()), reader.kind.data());
  }
  std::exit(2);
}

void conclude(std::unique_ptr<Facts> facts, Report& report) {
  FactsList all;
  if (auto* text = dynamic_cast<TextFacts*>(facts.get())) {
    for (auto& part : text->parts) all.push_back(std::move(part));
    text->parts.clear();
  }
  all.push_back(std::move(facts));
  // Two ranks, so that they are compared.
  int rank = 0;
  for (auto& one : all) {
    if (one->rank < 0) one->rank = rank++;
  }
  for (const Conclusion& conclusion : conclusions()) conclusion.conclude(all, report);
  sort_findings(report);
}

// Where each input is written, in memory: SQLite opens a file by its name.
struct InputFile {
  std::string path = "/dev/shm/diagnose_fuzz_XXXXXX";
  int descriptor = mkstemp(path.data());
  ~InputFile() { unlink(path.c_str()); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Reader* const reader = wanted_reader();
  static const InputFile file;
  const bool written = ftruncate(file.descriptor, 0) == 0 &&
                       pwrite(file.descriptor, data, size, 0) == static_cast<ssize_t>(size);
  if (!written) std::abort();
  Report report;
  if (reader == nullptr) {
    report = diagnose_paths({file.path}, "fuzz");
  } else {
    try {
      Input input(file.path, {.piece_bytes = 200});  // small pieces, so that their seams are met
      auto facts = reader->read(input);
      if (facts) conclude(std::move(facts), report);
    } catch (const monograph::UserError&) {
      return 0;  // refused with a message: as it should be
    }
  }
  if (to_text(report, Colour::kOff).empty() || to_json(report).empty() || to_html(report).empty()) {
    std::abort();
  }
  return 0;
}
