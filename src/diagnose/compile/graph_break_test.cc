#include "diagnose/compile/graph_break.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace monograph::diagnose {
namespace {

using testing::HasSubstr;

TEST(GraphBreak, OfVersion26) {
  const GraphBreak result = parse_graph_break(
      "Graph break in user code at /job/s1.py:6\n"
      "Reason: Unsupported: builtin: print [<class 'torch._dynamo.variables.constant."
      "ConstantVariable'>] False\n"
      "User code traceback:\n"
      "  File \"/job/s1.py\", line 6, in block\n"
      "    print(\"dbg\", h.shape)\n");
  EXPECT_EQ(result.file, "/job/s1.py");
  EXPECT_EQ(result.line, 6);
  EXPECT_EQ(result.reason, "builtin: print [ConstantVariable] False");
  ASSERT_EQ(result.stack.size(), 1u);
  EXPECT_EQ(result.stack[0].code, "print(\"dbg\", h.shape)");
  EXPECT_THAT(break_advice(result), HasSubstr("remove the print"));
}

TEST(GraphBreak, OfVersion211) {
  const GraphBreak result = parse_graph_break(
      "Graph break in user code at /job/a.py:61\n"
      "Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, "
      "e.g. f(x, y):\n"
      "\n"
      "Dynamic shape operator\n"
      "  Explanation: Operator `aten.nonzero.default`'s output shape depends on input data.\n"
      "  Hint: Enable tracing of dynamic shape operators with `x`\n"
      "\n"
      "  Developer debug context: aten.nonzero.default\n"
      "\n"
      " For more details about this graph break, please visit: https://x/gb0036.html\n"
      "\n"
      "Stack variable source attribution:\n"
      "  File \"/job/a.py\", line 60\n"
      "        y = x\n"
      "\n"
      "User code traceback:\n"
      "  File \"/job/a.py\", line 98, in <module>\n"
      "    main()\n"
      "    ~~~~^^\n"
      "  File \"/job/a.py\", line 61, in forward\n"
      "    return x.nonzero()\n"
      "           ~~~~~~~~~^^\n");
  EXPECT_EQ(result.reason, "Dynamic shape operator");
  EXPECT_THAT(result.explanation, HasSubstr("nonzero"));
  EXPECT_EQ(result.context, "aten.nonzero.default");
  EXPECT_EQ(result.hints.size(), 1u);
  ASSERT_EQ(result.stack.size(), 2u);
  EXPECT_EQ(user_place(result).function, "forward");
  EXPECT_FALSE(result.skips_function);
  EXPECT_THAT(break_advice(result), HasSubstr("fixed size"));
}

TEST(GraphBreak, ThatSkipsTheFunction) {
  const GraphBreak result = parse_graph_break(
      "Graph break in user code at /job/a.py:63\n"
      "Graph Break Reason: Failed to handle graph break gracefully. Skipping the function and "
      "falling back to eager. Graph break encountered:\n\nFailed to trace builtin operator\n"
      "  Explanation: Dynamo does not know how to trace builtin operator `print`\n");
  EXPECT_TRUE(result.skips_function);
  EXPECT_EQ(result.reason, "Failed to trace builtin operator");
}

TEST(GraphBreak, OfVersion22) {
  const GraphBreak result = parse_graph_break(
      "Graph break: call_function BuiltinVariable(print) [ConstantVariable(str)] {} from user code "
      "at:\n  File \"train.py\", line 9, in step\n    print('x')\n");
  EXPECT_EQ(result.reason, "call_function BuiltinVariable(print) [ConstantVariable(str)] {}");
  EXPECT_EQ(result.file, "train.py");
  EXPECT_EQ(result.line, 9);
  EXPECT_THAT(break_advice(result), HasSubstr("remove the print"));
}

TEST(GraphBreak, PlaceIsTheUsersFrame) {
  const GraphBreak result = parse_graph_break(
      "Graph break in user code at /usr/lib/python3.11/copy.py:153\n"
      "Graph Break Reason: Attempted to copy.deepcopy a tensor\n"
      "User code traceback:\n"
      "  File \"/job/a.py\", line 37, in step\n    y = copy.deepcopy(x)\n"
      "  File \"/usr/lib/python3.11/copy.py\", line 153, in deepcopy\n    y = copier(memo)\n");
  EXPECT_EQ(user_place(result).file, "/job/a.py");
  EXPECT_FALSE(is_internal(result));
}

TEST(GraphBreak, InsideDdpIsNobodysCode) {
  const std::string ddp = "/usr/lib/python3/dist-packages/torch/nn/parallel/distributed.py";
  EXPECT_TRUE(is_internal(parse_graph_break("Graph break in user code at " + ddp +
                                            ":1511\nReason: Unsupported: call_method x\n")));
}

TEST(GraphBreak, SurvivesTornMessages) {
  for (const std::string text : {"Graph break in user code at ", "Graph break (", "Graph break: ",
                                 "Graph break from `", "Graph break in user code at :\nReason:",
                                 "Graph break in user code at a:99999999999999999"}) {
    EXPECT_FALSE(parse_graph_break(text).reason.empty()) << text;
  }
}

// The commonest reasons, as 2.6 and as later versions word them, and a part of what to do.
TEST(GraphBreak, AdviceForCommonReasons) {
  const std::pair<std::string, std::string> kCases[] = {
      {"builtin: print [ConstantVariable] False", "reorderable_logging_functions"},
      {"Tensor.item", "capture_scalar_outputs"},
      {"Unsupported Tensor.item() call with capture_scalar_outputs=False",
       "capture_scalar_outputs"},
      {"Data-dependent jump", "torch.where"},
      {"Data-dependent branching", "torch.cond"},
      {"generic_jump TensorVariable()", "torch.cond"},
      {"dynamic shape operator: aten.nonzero.default", "capture_dynamic_output_shape_ops"},
      {"Tensor.numpy() with trace_numpy=False", "stay with torch"},
      {"call_method TensorVariable() backward", "backward() outside"},
      {"Unsupported Tensor.backward() call", "backward() outside"},
      {"Skip calling `torch.compiler.disable()`d function", "on purpose"},
      {"Call to `torch._dynamo.graph_break()`", "written in the code"},
      {"Attempted to call function marked as skipped", "torch.library.custom_op"},
      {"call_function UserDefinedClassVariable() [] {}", "custom_op"},
      {"Unsupported context manager", "context manager outside"},
      {"Logger not supported for non-export cases", "ignore_logger_methods"},
      {"Call to a time function", "clocks"},
      {"Attempt to trace generator", "plain loop"},
      {"Observed exception", "try/except"},
      {"async_op=True for distributed collectives", "functional collectives"},
      {"something never seen", "fullgraph=True"},
  };
  for (const auto& [reason, part] : kCases) {
    GraphBreak value;
    value.reason = reason;
    EXPECT_THAT(break_advice(value), HasSubstr(part)) << reason;
  }
}

}  // namespace
}  // namespace monograph::diagnose
