#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/torch_prefix.h"

// From files to a report, in two steps: each file's reader turns it into facts (many files at a
// time), then each conclusion looks at all the facts together. Readers and conclusions are listed,
// one line each, in registry/registry.cc.
namespace monograph::diagnose {

class Input;  // diagnose/input.h

// What one file said; each reader derives its own.
struct Facts {
  virtual ~Facts() = default;
  std::string path;  // set by the frame
  int rank = -1;     // -1: the content did not say; the frame then tries the file's name
};

using FactsList = std::vector<std::unique_ptr<Facts>>;

// Those facts of type T, in the order of their files.
template <typename T>
std::vector<const T*> facts_of(const FactsList& all) {
  std::vector<const T*> found;
  for (const auto& facts : all) {
    if (const auto* wanted = dynamic_cast<const T*>(facts.get())) found.push_back(wanted);
  }
  return found;
}

// Reads files of one kind. The first reader in the list that accepts a file gets it.
struct Reader {
  std::string_view kind;  // as shown: "flight-recorder dump (pickle)"
  // Sees the first bytes of the (decompressed) file, up to kHeadBytes. Decides by content; the
  // path may settle a tie.
  bool (*accepts)(std::string_view head, std::string_view path);
  // Called from several threads for different files. Throws UserError when the file cannot be read
  // after all; torn parts are counted and skipped.
  std::unique_ptr<Facts> (*read)(Input& input);
};

// One line of a text log. Text logs of one process mix many writers, so each line goes to every
// LineReader.
struct Line {
  std::string_view raw;   // as in the file, without the end of line
  std::string_view text;  // without colours and what launchers prepend ("[rank1]:", "[0] ")
  std::int64_t number = 0;
  int rank = -1;                           // from what launchers or torch prepend
  std::optional<TorchPrefix> prefix = {};  // of `text`, if torch's formatter wrote it

  // True for what only the reader of compiler messages can make something of.
  bool is_of_compiler() const { return prefix && is_compiler_record(*prefix); }
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // The views in `line` die with the call.
  virtual void read(const Line& line) = 0;
  // After the last line; null if the file said nothing about this reader's subject.
  virtual std::unique_ptr<Facts> finish() = 0;
};

struct LineReaderEntry {
  std::string_view subject;
  std::unique_ptr<LineReader> (*make)();
};

struct Conclusion {
  std::string_view subject;
  void (*conclude)(const FactsList& facts, Report& report);
};

std::span<const Reader> readers();
std::span<const LineReaderEntry> line_readers();
std::span<const Conclusion> conclusions();

}  // namespace monograph::diagnose
