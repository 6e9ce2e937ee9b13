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
    EventLog log(path, EventLevel::kDebug);
    log.write(EventLevel::kTrace, "below", {});
    log.write(EventLevel::kInfo, "step", {{"step", int64_t{3}}, {"loss", 0.5}, {"note", "a\"b\n"}});
  }
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  EXPECT_THAT(text, HasSubstr(R"("level":"info","event":"step","step":3,"loss":0.5,)"
                              R"("note":"a\"b\u000a"})"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(EventLog, IsOffByDefault) {
  EventLog log;
  EXPECT_FALSE(log.is_on(EventLevel::kInfo));
  log.write(EventLevel::kInfo, "nothing", {});
}

TEST(EventLog, NamesTheFileThatCannotBeWritten) {
  EXPECT_THROW(EventLog("/nowhere/events", EventLevel::kInfo), UserError);
  EventLog full("/dev/full", EventLevel::kInfo);
  try {
    full.write(EventLevel::kInfo, "step", {});
    FAIL() << "a full disk was not noticed";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/full': No space left"));
  }
  EXPECT_THROW(parse_event_level("loud"), UserError);
}

}  // namespace
}  // namespace monograph
