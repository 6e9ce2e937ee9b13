#include "ops/collective/compression.h"

#include <gmock/gmock.h>

#include "base/message_of.h"

namespace monograph::ops {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  return message_of([&] { parse_compression(text); });
}

TEST(CompressionTest, TextIsReadAndWritten) {
  for (const char* text : {"none", "qsgd:2", "qsgd:4", "qsgd:8", "topk:0.01", "topk:1",
                           "topk:0.001", "powersgd:1", "powersgd:32"}) {
    EXPECT_EQ(parse_compression(text).str(), text);
  }
  EXPECT_FALSE(parse_compression("none").is_on());
  EXPECT_FALSE(parse_compression("qsgd:4").has_residual());
  EXPECT_TRUE(parse_compression("topk:0.5").has_residual());
  EXPECT_TRUE(parse_compression("powersgd:2").has_residual());
}

TEST(CompressionTest, RefusalsSayWhatToUse) {
  EXPECT_THAT(refusal("qsgd:3"), HasSubstr("qsgd of 3 bits: use 2, 4 or 8"));
  EXPECT_THAT(refusal("qsgd:four"), HasSubstr("'four' is no number of bits: use 2, 4 or 8"));
  EXPECT_THAT(refusal("qsgd"), HasSubstr("compression 'qsgd': use qsgd:BITS"));
  EXPECT_THAT(refusal("gzip:9"),
              HasSubstr("compression 'gzip:9': use qsgd:BITS (2, 4 or 8), topk:"));
  EXPECT_THAT(refusal("topk:0"), HasSubstr("topk of 0 of the elements: use a fraction above 0"));
  EXPECT_THAT(refusal("topk:1.01"), HasSubstr("topk of 1.01 of the elements"));
  EXPECT_THAT(refusal("topk:nan"), HasSubstr("use a fraction above 0"));
  EXPECT_THAT(refusal("topk:1%"), HasSubstr("'1%' is no fraction"));
  EXPECT_THAT(refusal("powersgd:0"), HasSubstr("powersgd of rank 0: use 1 or more"));
  EXPECT_THAT(refusal("powersgd:1.5"), HasSubstr("'1.5' is no rank"));
  EXPECT_THAT(refusal(""), HasSubstr("compression ''"));
}

}  // namespace
}  // namespace monograph::ops
