#include "base/event.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace monograph {
namespace {

using ::testing::HasSubstr;

TEST(EventLog, WritesOneEscapedLineAnEventFromItsLevelOn) {
  const std::string path = ::testing::TempDir() + "/events.jsonl";
  std::filesystem::remove(path);
  {
    EventLog log(path, parse_event_levels("debug"));
    log.write(EventLevel::kTrace, EventCategory::kRun, "below", {});
    log.write(EventLevel::kInfo, EventCategory::kRun, "step",
              {{"step", int64_t{3}}, {"loss", 0.5}, {"note", "a\"b\n"}});
  }
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  EXPECT_THAT(text,
              HasSubstr(R"("level":"info","category":"run","event":"step","step":3,"loss":0.5,)"
                        R"("note":"a\"b\u000a"})"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(EventLog, IsOffByDefault) {
  EventLog log;
  EXPECT_FALSE(log.is_on(EventLevel::kInfo, EventCategory::kRun));
  log.write(EventLevel::kInfo, EventCategory::kRun, "nothing", {});
}

TEST(EventLog, OneSwitchSetsTheLevelOfEachCategory) {
  using enum EventLevel;
  EXPECT_EQ(parse_event_levels(""), (EventLevels{kInfo, kInfo, kInfo}));
  EXPECT_EQ(parse_event_levels("trace"), (EventLevels{kTrace, kTrace, kTrace}));
  EXPECT_EQ(parse_event_levels("compile=debug,off"), (EventLevels{kOff, kDebug, kOff}));
  EXPECT_EQ(parse_event_levels("graph=trace,run=off"), (EventLevels{kTrace, kInfo, kOff}));
  for (const auto& [text, message] :
       {std::pair{"loud", "event level 'loud': use one of trace, debug, info, off"},
        std::pair{"grap=info", "event category 'grap': use one of graph, compile, run"}}) {
    try {
      parse_event_levels(text);
      FAIL() << text;
    } catch (const UserError& error) {
      EXPECT_STREQ(error.what(), message);
    }
  }
}

TEST(EventLog, LinesOfOneProcessShareATraceId) {
  const std::string path = ::testing::TempDir() + "/trace_id.jsonl";
  std::filesystem::remove(path);
  EventLog log(path, parse_event_levels("info"), 3);
  log.write(EventLevel::kInfo, EventCategory::kGraph, "a", {});
  log.write(EventLevel::kInfo, EventCategory::kGraph, "b", {});
  std::ifstream file(path);
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  const auto origin = [](const std::string& line) {
    const size_t start = line.find("\"rank\":3,\"trace_id\":");
    EXPECT_NE(start, std::string::npos) << line;
    return line.substr(start, line.find(",\"level\"") - start);
  };
  EXPECT_EQ(origin(first), origin(second));
}

TEST(EventLog, NamesTheFileThatCannotBeWritten) {
  EXPECT_THROW(EventLog("/nowhere/events", EventLevels{}), UserError);
  EventLog full("/dev/full", EventLevels{});
  try {
    full.write(EventLevel::kInfo, EventCategory::kRun, "step", {});
    FAIL() << "a full disk was not noticed";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/full': No space left"));
  }
}

}  // namespace
}  // namespace monograph
