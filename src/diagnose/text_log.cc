#include "diagnose/text_log.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <deque>
#include <utility>

#include "diagnose/input.h"
#include "diagnose/line_scan.h"
#include "diagnose/ordered_pieces.h"

namespace monograph::diagnose {
namespace {

std::size_t count_digits(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

// "12:34:56" at `at`
bool is_clock(std::string_view text, std::size_t at) {
  return text.size() >= at + 8 && text[at + 2] == ':' && text[at + 5] == ':' &&
         is_digit(text[at]) && is_digit(text[at + 1]) && is_digit(text[at + 3]) &&
         is_digit(text[at + 4]) && is_digit(text[at + 6]) && is_digit(text[at + 7]);
}

// The number at `at` if it is a plausible rank and `close` follows; sets `end` behind `close`.
int rank_at(std::string_view text, std::size_t at, std::string_view close, std::size_t& end) {
  const std::size_t digits = count_digits(text, at);
  if (digits == 0 || digits > 6 || text.substr(at + digits, close.size()) != close) return -1;
  end = at + digits + close.size();
  return std::stoi(std::string(text.substr(at, digits)));
}

// Length of a time stamp "[2024-08-21 03:38:02,123] " or "2024-08-21T03:38:02.123Z " in front.
std::size_t stamp_length(std::string_view text) {
  const std::size_t open = text.starts_with('[') ? 1 : 0;
  if (text.size() < open + 19 || count_digits(text, open) != 4 || text[open + 4] != '-' ||
      !is_clock(text, open + 11)) {
    return 0;
  }
  const std::size_t end = open == 1 ? text.find(']', 20) : text.find(' ', 19);
  if (end == std::string_view::npos || end > open + 40) return 0;
  return std::min(text.size(), end + (open == 1 && text.substr(end + 1, 1) == " " ? 2 : 1));
}

struct Prefix {
  std::size_t length = 0;  // 0: no prefix
  int rank = -1;
};

Prefix bracket_prefix(std::string_view text) {
  Prefix prefix;
  for (const std::string_view word : {"[rank", "[default", "[Rank ", "["}) {
    if (!text.starts_with(word)) continue;
    // "[0]:" and "[0] " come from launchers; "[0/1] " is a compile id and does not match.
    const bool bare = word == "[";
    for (const std::string_view close : {"]: ", "]:", "] "}) {
      if (close == "] " && word == "[Rank ") continue;  // a message of c10d, not a launcher
      std::size_t end = 0;
      const int rank = rank_at(text, word.size(), close, end);
      if (rank < 0) continue;
      // A continuation line keeps its own indentation: at most one space is the launcher's.
      prefix = {end, rank};
      return prefix;
    }
    if (!bare) return prefix;
  }
  return prefix;
}

// "[1,3]<stderr>:", of mpirun --tag-output: job and rank; "[1,mpirank:3,algo-1]<stdout>:" of
// SageMaker
Prefix mpi_prefix(std::string_view text) {
  const std::size_t close = text.substr(0, 80).find("]<std");
  const std::size_t end = close == std::string_view::npos ? close : text.find(">:", close);
  const std::size_t comma = text.find(',');
  if (end == std::string_view::npos || end > close + 10 || comma > close ||
      count_digits(text, 1) != comma - 1) {
    return {};
  }
  std::size_t at = comma + 1;
  if (text.substr(at).starts_with("mpirank:")) at += 8;
  for (const std::string_view mark : {"]", ","}) {
    std::size_t ignored = 0;
    const int rank = rank_at(text, at, mark, ignored);
    if (rank >= 0) return {end + 2, rank};
  }
  return {};
}

Prefix next_prefix(std::string_view text) {
  if (text.empty()) return {};
  if (text[0] == '[') {
    if (const Prefix prefix = mpi_prefix(text); prefix.length > 0) return prefix;
    if (const Prefix prefix = bracket_prefix(text); prefix.length > 0) return prefix;
    return {stamp_length(text), -1};
  }
  if (text[0] == '(') {  // ray: "(RayTrainWorker pid=123, ip=10.0.0.1) "
    const std::size_t close = text.find(')');
    const bool known = close != std::string_view::npos && close < 120 &&
                       text.substr(0, close).find("pid=") != std::string_view::npos;
    if (!known) return {};
    std::size_t end = 0;
    const std::size_t word = text.substr(0, close).find("rank=");
    const int rank = word == std::string_view::npos ? -1 : rank_at(text, word + 5, "", end);
    return {std::min(text.size(), close + (text.substr(close + 1, 1) == " " ? 2 : 1)), rank};
  }
  if (text.starts_with("> ")) return {2, -1};
  // Container runtimes, behind their time stamp; F is a full line, P a part.
  for (const std::string_view stream : {"stderr F ", "stdout F ", "stderr P ", "stdout P "}) {
    if (text.starts_with(stream)) return {stream.size(), -1};
  }
  if (is_digit(text[0])) {
    std::size_t end = 0;
    const int rank = rank_at(text, 0, ": ", end);  // srun --label
    if (rank >= 0) return {end, rank};
    return {stamp_length(text), -1};
  }
  return {};
}

// "node-3: " or "trainer.7| ": a name in front of a log head.
bool is_host_label(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || (text.back() != ':' && text.back() != '|')) return false;
  text.remove_suffix(1);
  return !text.empty() && text.size() < 80 && std::all_of(text.begin(), text.end(), [](char c) {
    return is_word(c) || c == '-' || c == '.' || c == ' ' || c == '/';
  });
}

// Launchers in front of a head, a host's label among them; leaves what is none of these. The
// "[rank1]:" right before the head belongs to it, whatever stands in front.
int strip_before_head(std::string_view& before) {
  int rank = strip_launcher(before);
  const std::size_t bracket = before.rfind("[rank");
  if (bracket == std::string_view::npos) return rank;
  std::string_view last = before.substr(bracket);
  const int inner = strip_launcher(last);
  if (inner < 0 || !last.empty()) return rank;
  before = before.substr(0, bracket);
  if (is_host_label(before)) before = {};
  return inner;
}

// Some lines of the file.
struct TextPiece {
  std::string bytes;
  std::vector<Line> lines;        // numbered from the piece's first, 1
  std::deque<std::string> clean;  // lines without their colours
  std::int64_t num_lines = 0;
};

void split_piece(TextPiece& piece) {
  piece.lines.clear();
  piece.clean.clear();
  piece.num_lines = 0;
  piece.clean.emplace_back();
  for_each_line(piece.bytes, [&](std::string_view raw) {
    split_raw_line(raw, ++piece.num_lines, piece.clean.back(), piece.lines);
    if (!piece.clean.back().empty()) piece.clean.emplace_back();
  });
}

}  // namespace

std::string_view strip_ansi(std::string_view raw, std::string& storage) {
  if (std::memchr(raw.data(), '\x1b', raw.size()) == nullptr) return raw;
  storage.clear();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\x1b') {
      storage += raw[i];
      continue;
    }
    if (i + 1 < raw.size() && raw[i + 1] == '[') {  // CSI: parameters, then one byte 0x40 to 0x7e
      i += 2;
      while (i < raw.size() && (raw[i] < 0x40 || raw[i] > 0x7e)) ++i;
    } else if (i + 1 < raw.size() && raw[i + 1] == ']') {  // OSC: up to BEL
      while (i < raw.size() && raw[i] != '\a') ++i;
    } else {
      ++i;
    }
  }
  return storage;
}

int strip_launcher(std::string_view& text) {
  int rank = -1;
  for (int i = 0; i < 8; ++i) {
    const Prefix prefix = next_prefix(text);
    if (prefix.length == 0) break;
    text.remove_prefix(prefix.length);
    if (prefix.rank >= 0) rank = prefix.rank;
  }
  return rank;
}

std::size_t find_log_head(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size();) {
    const void* found = std::memchr(text.data() + at, ':', text.size() - at);
    if (found == nullptr) break;
    const std::size_t colon =
        static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    at = colon + 1;
    if (colon < from + 7 || !is_clock(text, colon - 2) || text[colon - 3] != ' ') continue;
    const std::size_t fraction = colon + 6;
    if (text.substr(fraction, 1) != "." || count_digits(text, fraction + 1) < 6) continue;
    std::size_t digit = colon - 3;  // behind the month and day
    while (digit > from && is_digit(text[digit - 1]) && colon - digit < 9) --digit;
    const std::size_t num_digits = colon - 3 - digit;
    if (digit == from || num_digits < 3 || num_digits > 4) continue;
    if (std::strchr("VIWECFD", text[digit - 1]) == nullptr) continue;
    const std::size_t head = digit - 1;
    return head > from && text[head - 1] == '[' ? head - 1 : head;
  }
  return std::string_view::npos;
}

void split_raw_line(std::string_view raw, std::int64_t number, std::string& storage,
                    std::vector<Line>& lines) {
  const std::size_t first = lines.size();
  const std::string_view clean = strip_ansi(raw, storage);
  const auto add = [&](std::string_view text, int rank) {
    const int inner = strip_launcher(text);
    lines.push_back({raw, text, number, inner >= 0 ? inner : rank, parse_torch_prefix(text)});
  };
  for (std::size_t begin = 0; begin <= clean.size();) {
    const std::size_t cut = std::min(clean.find('\r', begin), clean.size());
    std::string_view piece = clean.substr(begin, cut - begin);
    begin = cut + 1;
    while (true) {
      const std::size_t head = find_log_head(piece, 0);
      std::size_t next = head == std::string_view::npos ? head : find_log_head(piece, head + 8);
      // The next head's own "[rank1]:" belongs to it.
      if (next != std::string_view::npos) {
        const std::size_t bracket = piece.substr(0, next).rfind("[rank");
        if (bracket != std::string_view::npos && bracket + 16 > next && bracket > head) {
          next = bracket;
        }
      }
      const std::string_view line = piece.substr(0, next);
      if (head == std::string_view::npos) {
        if (!line.empty() || (cut == clean.size() && lines.size() == first)) add(line, -1);
      } else {
        std::string_view before = line.substr(0, head);
        const int rank = strip_before_head(before);
        if (!before.empty() && !is_host_label(before)) lines.push_back({raw, before, number, rank});
        add(line.substr(head), rank);
      }
      if (next == std::string_view::npos) break;
      piece.remove_prefix(next);
    }
  }
}

bool looks_like_text(std::string_view head, std::string_view) {
  if (head.empty()) return true;
  const auto odd = std::count_if(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0 || (byte < 0x20 && std::strchr("\t\n\r\x1b\a\b\f", byte) == nullptr);
  });
  return static_cast<std::size_t>(odd) * 100 <= head.size();
}

std::unique_ptr<Facts> read_text_log(Input& input) {
  const unsigned num_threads = input.options().num_threads;
  std::vector<TextPiece> pieces(num_threads);
  std::vector<std::unique_ptr<LineReader>> readers;
  for (const LineReaderEntry& entry : line_readers()) readers.push_back(entry.make());
  auto facts = std::make_unique<TextFacts>();
  PieceWork work;
  work.take = [&](unsigned slot) { return input.next_lines(pieces[slot].bytes); };
  work.work = [&](unsigned slot) { split_piece(pieces[slot]); };
  work.stages.emplace_back([&](unsigned slot) {
    for (Line& line : pieces[slot].lines) line.number += facts->num_lines;
    facts->num_lines += pieces[slot].num_lines;
  });
  for (const auto& reader : readers) {
    work.stages.emplace_back([&](unsigned slot) {
      for (const Line& line : pieces[slot].lines) reader->read(line);
    });
  }
  run_in_order(work, num_threads);
  for (const auto& reader : readers) {
    if (auto part = reader->finish()) facts->parts.push_back(std::move(part));
  }
  return facts;
}

}  // namespace monograph::diagnose
