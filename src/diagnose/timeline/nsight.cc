#include "diagnose/timeline/nsight.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"

namespace monograph::diagnose {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct CloseStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, CloseStatement>;

[[noreturn]] void fail(const std::string& path, std::string_view reason) {
  throw_user_error("{}: {}; export the report again with `nsys export --type sqlite`", path,
                   reason);
}

// Our rows hold no numbers that SQLite could not; a NULL reads as the default.
int64_t integer_at(sqlite3_stmt* row, int column, int64_t missing) {
  return column < 0 || sqlite3_column_type(row, column) == SQLITE_NULL
             ? missing
             : sqlite3_column_int64(row, column);
}

std::string text_at(sqlite3_stmt* row, int column) {
  const unsigned char* text = column < 0 ? nullptr : sqlite3_column_text(row, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(row, column))};
}

// "ProfilerStep#5", "step 12", "iteration_3": what people mark a training step with.
bool is_step_name(std::string_view text) {
  std::string lower;
  for (char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view rest = lower;
  for (std::string_view word :
       {"profilerstep", "train_step", "training_step", "iteration", "iter", "step", "batch"}) {
    if (!rest.starts_with(word)) continue;
    rest.remove_prefix(word.size());
    return std::all_of(rest.begin(), rest.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == ' ' || c == '_' || c == '#' ||
             c == ':' || c == '-';
    });
  }
  return false;
}

class NsightReader {
 public:
  NsightReader(sqlite3* database, const std::string& path) : database_(database), path_(path) {}

  std::vector<Timeline> read() {
    sqlite3_exec(database_, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;", nullptr,
                 nullptr, nullptr);
    find_tables();
    if (!has("CUPTI_ACTIVITY_KIND_KERNEL") && !has("CUPTI_ACTIVITY_KIND_MEMCPY")) {
      fail(path_,
           "this SQLite database holds no CUDA activity (no table CUPTI_ACTIVITY_KIND_KERNEL)");
    }
    read_strings();
    read_kernels();
    read_copies();
    read_memsets();
    read_launches();
    read_ranges();
    std::vector<Timeline> timelines;
    for (auto& [key, builder] : builders_) {
      Timeline& timeline = builder.timeline;
      timeline.source = path_;
      timeline.format = "Nsight Systems";
      timeline.num_events = num_rows_;
      timelines.push_back(builder.finish());
    }
    number(timelines);
    return timelines;
  }

 private:
  using Key = std::pair<int64_t, int64_t>;  // process, device

  bool has(const std::string& table) const { return columns_.contains(table); }

  Statement prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
      fail(path_, fmt::format("damaged database ({})", sqlite3_errmsg(database_)));
    }
    return Statement(statement);
  }

  // True while there are rows.
  bool step(const Statement& statement) {
    int code = sqlite3_step(statement.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
      fail(path_, fmt::format("damaged database ({})", sqlite3_errmsg(database_)));
    }
    if (code == SQLITE_ROW) ++num_rows_;
    return code == SQLITE_ROW;
  }

  // Plain tables only: a view could compute anything.
  void find_tables() {
    std::vector<std::string> names;
    Statement tables =
        prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0");
    while (step(tables)) names.push_back(text_at(tables.get(), 0));
    for (const std::string& name : names) {
      bool wanted = name.starts_with("CUPTI_ACTIVITY_KIND_") || name == "StringIds" ||
                    name == "NVTX_EVENTS" || name == "ENUM_CUDA_MEMCPY_OPER" ||
                    name == "ENUM_CUDA_MEM_KIND";
      if (!wanted || name.find('\'') != std::string::npos) continue;
      Statement info = prepare("PRAGMA table_info('" + name + "')");
      while (step(info)) columns_[name].insert(text_at(info.get(), 1));
    }
  }

  // Columns that a version of the schema lacks read as NULL.
  Statement select(const std::string& table, std::initializer_list<std::string_view> wanted) {
    std::string sql = "SELECT ";
    bool first = true;
    for (std::string_view column : wanted) {
      if (!first) sql += ", ";
      first = false;
      bool present = columns_[table].contains(std::string(column));
      sql += present ? fmt::format("\"{}\"", column) : "NULL";
    }
    return prepare(sql + " FROM " + table);
  }

  // Names of kernels, and of step ranges.
  void read_strings() {
    if (!has("StringIds")) return;
    std::string used;
    for (auto [table, column] : {std::pair("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
                                 std::pair("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
                                 std::pair("NVTX_EVENTS", "textId")}) {
      if (!has(table) || !columns_[table].contains(column)) continue;
      used += fmt::format("{}SELECT {} FROM {}", used.empty() ? "" : " UNION ", column, table);
    }
    if (used.empty()) return;
    Statement strings = prepare("SELECT id, value FROM StringIds WHERE id IN (" + used + ")");
    while (step(strings))
      strings_[sqlite3_column_int64(strings.get(), 0)] = text_at(strings.get(), 1);
  }

  std::string string_of(int64_t id) const {
    auto found = strings_.find(id);
    return found == strings_.end() ? std::string() : found->second;
  }

  std::map<int64_t, std::string> read_enum(const std::string& table) {
    std::map<int64_t, std::string> names;
    if (!has(table)) return names;
    bool labelled = columns_[table].contains("label");
    Statement rows =
        prepare(fmt::format("SELECT id, {} FROM {}", labelled ? "label" : "name", table));
    while (step(rows)) names[sqlite3_column_int64(rows.get(), 0)] = text_at(rows.get(), 1);
    return names;
  }

  // The columns that all device work has come first in each select: start, end, deviceId, streamId,
  // correlationId, globalPid.
  bool read_span(sqlite3_stmt* row, Span& span, Key& key, int64_t& correlation) {
    span.start_ns = integer_at(row, 0, -1);
    span.end_ns = integer_at(row, 1, -1);
    int64_t device = integer_at(row, 2, 0);
    span.device =
        static_cast<int16_t>(std::clamp<int64_t>(device, 0, std::numeric_limits<int16_t>::max()));
    span.stream = static_cast<int32_t>(integer_at(row, 3, 0));
    correlation = integer_at(row, 4, 0);
    key = {integer_at(row, 5, 0) >> 24, device};
    // CUPTI writes 0 where it could not measure.
    constexpr int64_t kMaxTime = int64_t{1} << 62;
    return span.start_ns > 0 && span.end_ns >= span.start_ns && span.end_ns < kMaxTime;
  }

  void read_kernels() {
    if (!has("CUPTI_ACTIVITY_KIND_KERNEL")) return;
    Statement rows = select("CUPTI_ACTIVITY_KIND_KERNEL",
                            {"start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                             "demangledName", "shortName"});
    while (step(rows)) {
      Span span;
      Key key;
      int64_t correlation = 0;
      bool valid = read_span(rows.get(), span, key, correlation);
      TimelineBuilder& builder = builders_[key];
      if (!valid) {
        ++builder.timeline.num_skipped;
        continue;
      }
      std::string name = string_of(integer_at(rows.get(), 6, -1));
      if (name.empty()) name = string_of(integer_at(rows.get(), 7, -1));
      span.name = builder.name_id(name);
      span.activity = classify_kernel(name);
      if (span.activity == Activity::kCollective) {
        span.detail = static_cast<int32_t>(builder.timeline.collectives.size());
        builder.timeline.collectives.emplace_back().op = collective_op(name);
      }
      builder.add(span, correlation);
    }
  }

  void read_copies() {
    if (!has("CUPTI_ACTIVITY_KIND_MEMCPY")) return;
    std::map<int64_t, std::string> kinds = read_enum("ENUM_CUDA_MEMCPY_OPER");
    for (auto [id, name] : {std::pair(1, "Host-to-Device"), std::pair(2, "Device-to-Host"),
                            std::pair(8, "Device-to-Device"), std::pair(10, "Peer-to-Peer")}) {
      kinds.try_emplace(id, name);
    }
    std::map<int64_t, std::string> memories = read_enum("ENUM_CUDA_MEM_KIND");
    Statement rows = select("CUPTI_ACTIVITY_KIND_MEMCPY",
                            {"start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                             "copyKind", "bytes", "srcKind", "dstKind"});
    while (step(rows)) {
      Span span;
      Key key;
      int64_t correlation = 0;
      bool valid = read_span(rows.get(), span, key, correlation);
      TimelineBuilder& builder = builders_[key];
      if (!valid) {
        ++builder.timeline.num_skipped;
        continue;
      }
      std::string from = memories[integer_at(rows.get(), 8, -1)];
      std::string to = memories[integer_at(rows.get(), 9, -1)];
      std::string name = fmt::format("Memcpy {}", kinds[integer_at(rows.get(), 6, -1)]);
      if (!from.empty() && !to.empty()) name += fmt::format(" ({} -> {})", from, to);
      span.name = builder.name_id(name);
      span.activity = Activity::kCopy;
      span.detail = static_cast<int32_t>(builder.timeline.copies.size());
      builder.timeline.copies.push_back(
          {integer_at(rows.get(), 7, -1), name.find("ageable") != std::string::npos});
      builder.add(span, correlation);
    }
  }

  void read_memsets() {
    if (!has("CUPTI_ACTIVITY_KIND_MEMSET")) return;
    Statement rows = select("CUPTI_ACTIVITY_KIND_MEMSET",
                            {"start", "end", "deviceId", "streamId", "correlationId", "globalPid"});
    while (step(rows)) {
      Span span;
      Key key;
      int64_t correlation = 0;
      if (!read_span(rows.get(), span, key, correlation)) continue;
      TimelineBuilder& builder = builders_[key];
      span.name = builder.name_id("Memset");
      span.activity = Activity::kMemset;
      builder.add(span, correlation);
    }
  }

  void read_launches() {
    if (!has("CUPTI_ACTIVITY_KIND_RUNTIME")) return;
    Statement rows = select("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "correlationId", "globalTid"});
    while (step(rows)) {
      int64_t start = integer_at(rows.get(), 0, -1);
      int64_t correlation = integer_at(rows.get(), 1, 0);
      int64_t process = integer_at(rows.get(), 2, 0) >> 24;
      if (start < 0 || correlation == 0) continue;
      for (auto& [key, builder] : builders_) {
        if (key.first == process || key.first == 0) builder.add_launch(correlation, start);
      }
    }
  }

  void read_ranges() {
    if (!has("NVTX_EVENTS")) return;
    Statement rows = select("NVTX_EVENTS", {"start", "end", "text", "textId", "globalTid"});
    while (step(rows)) {
      int64_t start = integer_at(rows.get(), 0, -1);
      int64_t end = integer_at(rows.get(), 1, -1);  // NULL for a mark
      if (start < 0 || end <= start) continue;
      std::string text = text_at(rows.get(), 2);
      if (text.empty()) text = string_of(integer_at(rows.get(), 3, -1));
      if (!is_step_name(text)) continue;
      int64_t process = integer_at(rows.get(), 4, 0) >> 24;
      for (auto& [key, builder] : builders_) {
        if (key.first == process || key.first == 0 || process == 0)
          builder.add_step(text, start, end);
      }
    }
  }

  // Nsight knows no ranks. With one process a device they are told apart by device, as on one host.
  static void number(std::vector<Timeline>& timelines) {
    if (timelines.size() < 2) return;
    std::set<int16_t> devices;
    for (const Timeline& timeline : timelines) {
      if (!timeline.spans.empty()) devices.insert(timeline.spans.front().device);
    }
    if (devices.size() != timelines.size()) return;
    for (Timeline& timeline : timelines) timeline.rank = timeline.spans.front().device;
  }

  sqlite3* database_;
  const std::string& path_;
  std::map<std::string, std::set<std::string>> columns_;  // of the tables that are there
  std::unordered_map<int64_t, std::string> strings_;
  std::map<Key, TimelineBuilder> builders_;
  int64_t num_rows_ = 0;
};

}  // namespace

bool looks_like_sqlite(std::string_view head) {
  return head.starts_with(std::string_view("SQLite format 3\0", 16));
}

std::vector<Timeline> read_nsight_file(const std::string& path) {
  std::string uri = "file:";
  for (char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  sqlite3* opened = nullptr;
  int code = sqlite3_open_v2((uri + "?immutable=1").c_str(), &opened,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  Database database(opened);
  if (code != SQLITE_OK) fail(path, "cannot open it as an SQLite database");
  return NsightReader(database.get(), path).read();
}

std::vector<Timeline> read_nsight_bytes(std::string bytes, const std::string& path) {
  sqlite3* opened = nullptr;
  int code = sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE, nullptr);
  Database database(opened);
  auto size = static_cast<sqlite3_int64>(bytes.size());
  if (code == SQLITE_OK) {
    code = sqlite3_deserialize(opened, "main", reinterpret_cast<unsigned char*>(bytes.data()), size,
                               size, SQLITE_DESERIALIZE_READONLY);
  }
  if (code != SQLITE_OK) fail(path, "cannot open it as an SQLite database");
  return NsightReader(database.get(), path).read();
}

}  // namespace monograph::diagnose
