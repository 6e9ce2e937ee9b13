#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/message_of.h"
#include "frontend/session/monograph.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 3, 1};
  nn::Dropout drop{*this, "drop", 0.5};
  Tensor operator()(const Tensor& x) const { return drop(fc(x)); }
};

const ir::Literal kRows = ir::Literal::from_f32({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(SessionTest, TrainingAndEvaluationShareStates) {
  Net net;
  optim::SGD sgd(net.parameters(), {.learning_rate = optim::Schedule::constant(0.1)});
  Session session;
  Compiled train = session.compile([&](const Tensor& x) {
    const Tensor loss = sum(net.fc(x));
    sgd.step(loss.backward());
    return loss;
  });
  Compiled evaluate = session.compile([&](const Tensor& x) { return sum(net.fc(x)); });
  const double before = train(kRows).loss();
  const double after = evaluate(kRows).loss();
  EXPECT_LT(after, before - 1);
  EXPECT_EQ(after, evaluate(kRows).loss());
  EXPECT_EQ(after, train(kRows).loss());
  EXPECT_LT(evaluate(kRows).loss(), after - 1);
  EXPECT_EQ(session.state("step").get_i64(0), 2);
  EXPECT_THAT(session.state_names(), ElementsAre("fc.bias", "fc.weight", "step"));
}

TEST(SessionTest, SetStateIsSeenByTheNextStep) {
  Net net;
  Session session;
  Compiled evaluate = session.compile([&](const Tensor& x) { return sum(net.fc(x)); });
  session.set_state("fc.weight", ir::Literal::from_f32({3, 1}, {1, 1, 1}));
  EXPECT_EQ(evaluate(kRows).loss(), 21);
  session.set_state("fc.bias", ir::Literal::from_f32({1}, {1}));
  EXPECT_EQ(evaluate(kRows).loss(), 23);
  EXPECT_THAT(message_of([&] { session.set_state("fc.bias", kRows); }),
              HasSubstr("state 'fc.bias' is f32[1], the given value is f32[2,3]"));
  EXPECT_THAT(message_of([&] { session.state("fc.gamma"); }),
              HasSubstr("no state 'fc.gamma' in this session: it has fc.bias, fc.weight"));
}

TEST(SessionTest, AStateOfAnotherTypeIsRefused) {
  Net net;
  Session session;
  session.set_state("fc.weight", kRows);
  Compiled evaluate = session.compile([&](const Tensor& x) { return sum(net.fc(x)); });
  EXPECT_THAT(message_of([&] { evaluate(kRows); }),
              HasSubstr("state 'fc.weight' is f32[2,3] in this session, but the function being "
                        "compiled has f32[3,1]"));
}

TEST(SessionTest, TracesOnceASignatureAndMode) {
  Net net;
  Session session;
  int num_traces = 0;
  Compiled function = session.compile([&](const Tensor& x) {
    ++num_traces;
    return sum(net(x));
  });
  function(kRows);
  function(kRows);
  EXPECT_EQ(num_traces, 1);
  function(ir::Literal({ir::DType::kF32, {5, 3}}));
  EXPECT_EQ(num_traces, 2);
  net.eval();
  EXPECT_EQ(function(kRows).loss(), function(kRows).loss());  // no dropout
  EXPECT_EQ(num_traces, 3);
  net.train();
  function(kRows);
  EXPECT_EQ(num_traces, 3);
  EXPECT_EQ(function.num_signatures(), 3);
}

TEST(SessionTest, SeedDecidesTheRun) {
  const auto run = [](int64_t seed) {
    Net net;
    Session session({.seed = seed});
    Compiled function = session.compile([&](const Tensor& x) { return net(x); });
    function(kRows);
    return function(kRows).values[0];
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(SessionTest, OutputsAreNamed) {
  Compiled named = compile([](const Tensor& x) {
    return Outputs{{"loss", x.mean()}, {"largest", amax(x)}};
  });
  const Results results = named(kRows);
  EXPECT_EQ(results.loss(), 3.5);
  EXPECT_EQ(results.scalar("largest"), 6);
  EXPECT_THAT(message_of([&] { results["least"]; }),
              HasSubstr("no output 'least': the function returns loss, largest"));
  Compiled pair =
      compile([](const Tensor& x, const Tensor& y) { return std::make_tuple(x.mean(), x + y); });
  const Results both = pair(kRows, kRows);
  EXPECT_THAT(both.names, ElementsAre("loss", "output1"));
  EXPECT_THAT(message_of([&] { both.scalar("output1"); }), HasSubstr("is f32[2,3], no scalar"));
  EXPECT_THAT(message_of([&] { pair(kRows); }), HasSubstr("takes 2 tensors, 1 were given"));
}

TEST(SessionTest, UnusedParametersAreNamed) {
  Net net;
  Session session;
  optim::SGD sgd(net.parameters(), {.learning_rate = optim::Schedule::constant(0.1)});
  Compiled step = session.compile([&](const Tensor& x) {
    const Tensor loss = sum(matmul(x, net.fc.weight) + detach(x.trace().read(*net.fc.bias)));
    sgd.step(loss.backward());
    return loss;
  });
  EXPECT_THAT(message_of([&] { step.unused_parameters(); }), HasSubstr("not traced yet"));
  step(kRows);
  EXPECT_THAT(step.unused_parameters(), ElementsAre("fc.bias"));
}

std::string lines_with(const std::string& path, const std::string& part) {
  std::ifstream file(path);
  std::string lines;
  for (std::string line; std::getline(file, line);) {
    if (line.find(part) != std::string::npos) lines += line + "\n";
  }
  return lines;
}

TEST(SessionTest, EventsSayWhyItCompiledAgain) {
  const std::string path = testing::TempDir() + "/session_events.jsonl";
  std::filesystem::remove(path);
  EventLog events(path, parse_event_levels("trace"));
  Net net;
  Session session({.events = &events});
  Compiled function = session.compile([&](const Tensor& x) { return sum(net(x)); },
                                      {.input_names = {"rows"}, .name = "forward"});
  function(kRows);
  function(kRows);
  EXPECT_EQ(lines_with(path, "recompile"), "");
  EXPECT_THAT(lines_with(path, R"("event":"compile","frame_key":"forward#1")"),
              HasSubstr(R"("backend":"cpu")"));
  EXPECT_THAT(lines_with(path, R"("event":"graph","frame_key":"forward#1")"),
              HasSubstr(function.graph({kRows.type()}).hash().hex()));
  EXPECT_THAT(lines_with(path, R"("op":"matmul")"), HasSubstr(R"("scope":"fc")"));
  EXPECT_THAT(lines_with(path, R"("event":"pass")"), HasSubstr("fuse"));

  function(ir::Literal({ir::DType::kF32, {5, 3}}));
  EXPECT_THAT(lines_with(path, R"("event":"recompile","frame_key":"forward#2","signature":2)"),
              HasSubstr("input 'rows' dim 0: expected f32[2,3], got f32[5,3] (used at "));
  net.eval();
  function(kRows);
  EXPECT_THAT(lines_with(path, "forward#3"),
              HasSubstr("training mode of 'drop': expected true, got false"));
}

// Replaces additions by subtractions: wrong on purpose, so that its effect is seen.
bool subtract(ir::Graph& graph, passes::PassContext&) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!node.is("add")) return ir::keep();
    return build.sub(node.operand(0), node.operand(1));
  });
}

TEST(SessionTest, PassesOfTheUserRunOnTheTracedGraph) {
  CompileOptions options{.backend = "interpret"};
  options.user_passes = {{"subtract", subtract, "a test"}};
  Compiled function = compile([](const Tensor& x) { return sum(x + 1.0); }, options);
  EXPECT_EQ(function(kRows).loss(), 21 - 6);
}

bool fail(ir::Graph&, passes::PassContext&) {
  throw_internal_error("no such luck");
}

TEST(SessionTest, APassOfTheUserThatFailsIsAWarningIfErrorsAreSuppressed) {
  const std::string path = testing::TempDir() + "/failing_pass_events";
  std::remove(path.c_str());
  EventLog events(path, parse_event_levels("info"));
  CompileOptions options{.backend = "interpret"};
  options.user_passes = {{"subtract", subtract, "a test"}, {"fail", fail, "a test"}};
  const auto run = [&] {
    Session session({.options = options, .events = &events});
    return session.compile([](const Tensor& x) { return sum(x + 1.0); })(kRows).loss();
  };
  EXPECT_THROW(run(), InternalError);
  options.suppress_errors = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(), 21 + 6);  // what the first pass made of it is given up, too
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("no such luck"));
  EXPECT_THAT(lines_with(path, R"("event":"fallback")"), HasSubstr("no such luck"));
}

TEST(SessionTest, NullBackendCompilesAndDoesNotRun) {
  Compiled function = compile([](const Tensor& x) { return x.mean(); }, {.backend = "null"});
  EXPECT_EQ(function.graph({kRows.type()}).outputs().size(), 1u);
  EXPECT_THAT(message_of([&] { function(kRows); }), HasSubstr("backend null compiles and runs"));
}

TEST(OptionsTest, UnknownOnesNameTheValidOnes) {
  CompileOptions options;
  set_option(options, "backend", "interpret");
  set_option(options, "disable_pass", "fuse");
  set_option(options, "stop_after", "3");
  EXPECT_EQ(options.stop_after, 3);
  EXPECT_THAT(
      message_of([&] { set_option(options, "bakend", "cpu"); }),
      HasSubstr("unknown option 'bakend': use one of backend, cache_dir, comm_optimization_level"));
  EXPECT_THAT(message_of([&] { set_option(options, "stop_after", "x"); }), HasSubstr("a number"));
  set_option(options, "link", "50us:0.1GB/s");
  EXPECT_DOUBLE_EQ(options.link->latency_s, 50e-6);
  EXPECT_DOUBLE_EQ(options.link->bytes_per_s, 0.1e9);
  for (const char* text :
       {"", "50us", "50us:", ":1GB/s", "50us:0GB/s", "-1us:1GB/s", "50ms:1GB/s"}) {
    EXPECT_THAT(message_of([&] { set_option(options, "link", text); }), HasSubstr("30us:4GB/s"));
  }
  EXPECT_THAT(message_of([&] { set_option(options, "fullgraph", "yes"); }),
              HasSubstr("option fullgraph='yes': use one of true, false"));
  EXPECT_THAT(message_of([&] { set_option(options, "backend", "cuda9"); }),
              HasSubstr("option backend='cuda9': use one of cpu, cuda, interpret, null"));
  EXPECT_THAT(message_of([] { Session({.options = {.mode = "fast"}}); }),
              HasSubstr("option mode='fast'"));
}

}  // namespace
}  // namespace monograph::session
