// What the pass tells of the bytes that it leaves out; tests/passes has what becomes of the graph.
#include "passes/collective/remove_redundant_traffic.h"

#include <gmock/gmock.h>

#include "ir/parser.h"
#include "passes/simplify/merge_equal_nodes.h"

namespace monograph::passes {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;

TEST(RemoveRedundantTraffic, CountsTheBytesThatAreNotSent) {
  const auto graph = ir::parse_graph(R"(graph @g {
    %x = input "x" : f32[4,2]
    %zero = full() {dtype=f32, shape=[4,2], value=0.0} : f32[4,2]
    %unread = all_reduce(%x) {axis="data", op="sum", size=3} : f32[4,2]
    %z = all_reduce(%zero) {axis="data", op="sum", size=3} : f32[4,2]
    %a = all_gather(%x) {axis="data", size=3} : f32[12,2]
    %p = slice(%a) {axis=0, end=4, start=0} : f32[4,2]
    %s = all_reduce(%x) {axis="data", op="max", size=3} : f32[4,2]
    %t = all_reduce(%x) {axis="data", op="max", size=3} : f32[4,2]
    %y = add(%s, %t) : f32[4,2]
    return z=%z, p=%p, y=%y
  }
)");
  PassContext context;
  EXPECT_TRUE(merge_equal_nodes(*graph, context));
  EXPECT_TRUE(remove_redundant_traffic(*graph, context));
  EXPECT_EQ(context.left_out().num_collectives, 4);
  EXPECT_EQ(context.left_out().bytes, 32 + 32 + 64 + 32);
  std::vector<std::string> reasons;
  for (const Remark& remark : context.remarks()) reasons.push_back(remark.reason);
  EXPECT_THAT(reasons, Contains("32 bytes are not sent: nobody reads what it gives"));
  EXPECT_THAT(reasons, Contains("64 bytes are not sent: only the part of rank 0 is read"));
  EXPECT_THAT(reasons, Contains("32 bytes are not sent: what is sent is zero, whatever the inputs "
                                "are"));
  EXPECT_THAT(reasons, Contains(EndsWith("all_reduce has computed")));
}

}  // namespace
}  // namespace monograph::passes
