#include "diagnose/compile/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/compile/recompile.h"

namespace monograph::diagnose {
namespace {

using testing::HasSubstr;

struct Case {
  std::string text;
  GuardKind kind;
  std::string change;
  std::string advice;  // part of it
};

// The reasons of 2.2 to 2.6 wrap names in L['..'], later ones do not.
const Case kCases[] = {
    {"tensor 'L['x']' size mismatch at index 0. expected 8, actual 6", GuardKind::kSize,
     "size of x at dimension 0: 8 -> 6", "mark_dynamic(x, 0)"},
    {"tensor 'x' size mismatch at index 1. expected 128, actual 200", GuardKind::kSize,
     "size of x at dimension 1: 128 -> 200", "mark_dynamic(x, 1)"},
    {"tensor 'x' stride mismatch at index 0. expected 8, actual 1", GuardKind::kStride,
     "stride of x at dimension 0: 8 -> 1", "contiguous()"},
    {"tensor 'x' rank mismatch. expected 1, actual 2", GuardKind::kNumDims,
     "number of dimensions of x: 1 -> 2", "reshape x"},
    {"tensor 'x' dtype mismatch. expected Float, actual Double", GuardKind::kDtype,
     "dtype of x: Float -> Double", "cast x"},
    {"tensor 'x' requires_grad mismatch. expected requires_grad=0", GuardKind::kRequiresGrad,
     "requires_grad of x: False -> True", "detach x"},
    {"tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, AutogradCPU), actual "
     "DispatchKeySet(CUDA, AutogradCUDA)",
     GuardKind::kDevice,
     "device or layout of x: DispatchKeySet(CPU, AutogradCPU) -> DispatchKeySet(CUDA, "
     "AutogradCUDA)",
     "one device"},
    {"expected type of 'x' to be <class 'torch.Tensor'>, but found <class 'int'>",
     GuardKind::kTensorType, "type of x: <class 'torch.Tensor'> -> <class 'int'>", "plain tensor"},
    {"GLOBAL_STATE changed: grad_mode ", GuardKind::kGradMode, "grad mode (torch.no_grad or not)",
     "two are normal"},
    {"GLOBAL_STATE changed: autocast(cpu)_enabled ", GuardKind::kAutocast,
     "autocast state (autocast(cpu)_enabled)", "torch.autocast"},
    {"___check_global_state()", GuardKind::kGlobalState, "global state: global state",
     "global switches"},
    {"L['k'] == 0.5                      # y=x*k  # ob/s1.py:15 in f", GuardKind::kFloat,
     "value of k (was 0.5)", "torch.tensor(k)"},
    {"n == 1", GuardKind::kInteger, "value of n (was 1)", "automatic_dynamic_shapes"},
    {"mode == 'relu'    # y = f(mode)  # train.py:59 in forward", GuardKind::kString,
     "value of mode (was 'relu')", "one function a mode"},
    {"s.neg == False", GuardKind::kBoolean, "value of s.neg: False -> True", "two are fine"},
    {"not L['flag']", GuardKind::kBoolean, "value of flag: False -> True", "two are fine"},
    {"L['self'].training == True", GuardKind::kTraining, "value of self.training: True -> False",
     "model.eval()"},
    {"L['self'].step == 3", GuardKind::kModuleNumber, "value of self.step (was 3)",
     "allow_unspec_int_on_nn_module"},
    {"len(L['xs']) == 2", GuardKind::kLength, "len(xs) (was 2)", "unrolled"},
    {"list(dict.keys(d))[0] == 'a'", GuardKind::kKeys, "keys of d", "same keys"},
    {"___check_obj_id(L['fn'], 139696444471168)     ", GuardKind::kIdentity, "fn is another object",
     "made anew"},
    {"___check_obj_id(f.__code__, 139782132048256), type=<class 'code'>  # f(x)  # a.py:1 in g",
     GuardKind::kIdentity, "f is another object", "made anew"},
    {"___check_type_id(o, 94762009600800), type=<class '__main__.A'>", GuardKind::kType,
     "class of o (was __main__.A)", "one class"},
    {"Duplicate tensors found: [\"a\", \"b\"]", GuardKind::kAliasing,
     "which arguments are one tensor (\"a\", \"b\")", "clone one"},
    {"5 <= L['x'].size()[0]  # if x.shape[0] > 4  # a.py:137 in sym (_dynamo/x.py:3 in evaluate)",
     GuardKind::kShape, "the shape left the compiled range 5 <= x.size()[0]", "does not depend"},
    {"___skip_backend_check() or ___current_backend() == ___lookup_backend(140)",
     GuardKind::kBackend, "the backend or its options", "one backend"},
    {"KeyError on L['d']['k']", GuardKind::kAttribute, "whether d['k'] exists: yes -> no",
     "before"},
    {"", GuardKind::kUnknown, "the log gives no reason", "recompiles_verbose"},
    {"Unexpected recompilation: runtime guards failed even though they passed", GuardKind::kUnknown,
     "Unexpected recompilation: runtime guards failed even though they passed",
     "recompiles_verbose"},
};

TEST(Guard, UnderstandsEachReason) {
  for (const Case& one : kCases) {
    const Guard guard = parse_guard(one.text);
    EXPECT_EQ(guard.kind, one.kind) << one.text;
    EXPECT_EQ(describe_change(guard), one.change) << one.text;
    EXPECT_THAT(guard_advice(guard, false), HasSubstr(one.advice)) << one.text;
  }
}

TEST(Guard, ReadsTheComment) {
  const Guard guard =
      parse_guard("L['s'].tag == 'x'     # return s.l(x)  # ob/s1.py:27 in forward");
  EXPECT_EQ(guard.code, "return s.l(x)");
  EXPECT_EQ(guard.file, "ob/s1.py");
  EXPECT_EQ(guard.line, 27);
  EXPECT_EQ(guard.function, "forward");
  EXPECT_EQ(guard.expression, "L['s'].tag == 'x'");
}

TEST(Guard, KeyStaysWhenOnlyValuesChange) {
  EXPECT_EQ(parse_guard("L['k'] == 0.5").key(), parse_guard("L['k'] == 0.75").key());
  EXPECT_NE(parse_guard("L['k'] == 0.5").key(), parse_guard("L['j'] == 0.5").key());
  const std::string size = "tensor 'x' size mismatch at index ";
  EXPECT_NE(parse_guard(size + "0. expected 4, actual 5").key(),
            parse_guard(size + "1. expected 4, actual 5").key());
}

TEST(Recompile, ParsesItsMessage) {
  const Recompile recompile = parse_recompile(
      "Recompiling function forward in /job/train.py:58\n"
      "    triggered by the following guard failure(s):\n"
      "    - 0/2: s.neg == False    # y = s.l2(y)  # train.py:60 in forward\n"
      "    - User stack trace:\n"
      "    -   File \"/job/train.py\", line 60, in forward\n"
      "    -     y = s.l2(y)\n"
      "    - 0/1: tensor 'x' size mismatch at index 0. expected 8, actual 12\n");
  EXPECT_EQ(recompile.function.name, "forward");
  EXPECT_EQ(recompile.function.file, "/job/train.py");
  EXPECT_EQ(recompile.function.line, 58);
  ASSERT_EQ(recompile.failures.size(), 2u);
  EXPECT_EQ(recompile.failures[0].entry, "0/2");
  EXPECT_EQ(recompile.failures[1].text,
            "tensor 'x' size mismatch at index 0. expected 8, actual 12");
}

TEST(Recompile, CauseIsTheGuardThatSplitsNothingYet) {
  Recompile recompile;
  recompile.failures = {{"0/1", "mode == 'tanh'"},
                        {"0/0", "tensor 'x' size mismatch at index 0. expected 8, actual 12"}};
  // mode split 0/1 from 0/0: that 0/1 fails by it says nothing new.
  const std::string mode = parse_guard("mode == 'relu'").key();
  EXPECT_EQ(cause_of(recompile, {mode})->entry, "0/0");
  EXPECT_EQ(cause_of(recompile, {})->entry, "0/1");
  EXPECT_EQ(cause_of(Recompile{}, {}), nullptr);
}

TEST(Recompile, ParsesTheLimit) {
  for (const std::string option : {"recompile_limit", "cache_size_limit"}) {
    const LimitHit hit = parse_limit_hit("torch._dynamo hit config." + option +
                                         " (8)\n   function: 'f' (C:\\job\\a.py:26)\n"
                                         "   last reason: 0/7: n == 3\nTo log all ...");
    EXPECT_EQ(hit.option, option);
    EXPECT_EQ(hit.limit, 8);
    EXPECT_EQ(hit.function.name, "f");
    EXPECT_EQ(hit.function.file, "C:\\job\\a.py");
    EXPECT_EQ(hit.function.line, 26);
    EXPECT_EQ(hit.last_reason, "0/7: n == 3");
  }
}

}  // namespace
}  // namespace monograph::diagnose
