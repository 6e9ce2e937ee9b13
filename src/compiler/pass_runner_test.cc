#include "compiler/pass_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "ir/parser.h"
#include "ir/printer.h"

namespace monograph::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool do_nothing(ir::Graph&, passes::PassContext&) {
  return false;
}
bool claim_only(ir::Graph&, passes::PassContext&) {
  return true;
}

bool add_tanh(ir::Graph& graph, passes::PassContext& context) {
  const ir::Value last = graph.outputs().back().value;
  ir::Node* node = graph.add("tanh", {last}, {}, {last.type()});
  graph.add_output("y" + std::to_string(graph.num_nodes()), node->result());
  context.remark(*node, "added");
  return true;
}
bool add_tanh_in_secret(ir::Graph& graph, passes::PassContext& context) {
  return !add_tanh(graph, context);
}
bool add_unknown_op(ir::Graph& graph, passes::PassContext&) {
  const ir::Value last = graph.outputs().back().value;
  graph.add_output("z", graph.add("tanhh", {last}, {}, {last.type()})->result());
  return true;
}
bool break_structure(ir::Graph& graph, passes::PassContext&) {
  graph.add_output("z", {graph.nodes()[0].get(), 1});
  return true;
}

bool fail_half_way(ir::Graph& graph, passes::PassContext& context) {
  add_tanh(graph, context);
  throw_internal_error("no way on");
}

std::unique_ptr<ir::Graph> small_graph() {
  return ir::parse_graph("graph @g { %x = input \"x\" : f32[2]\nreturn loss=%x }");
}

std::string error_of(const PassOptions& options, std::span<const PipelineStep> steps) {
  const auto graph = small_graph();
  passes::PassContext context;
  try {
    run_passes(*graph, context, options, steps);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A folder of its own for each test, removed with it.
class PassRunner : public testing::Test {
 protected:
  PassRunner() { std::filesystem::remove_all(folder_); }
  ~PassRunner() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

constexpr PipelineStep kSteps[] = {
    {"grow", add_tanh, ""}, {"rest", do_nothing, ""}, {"grow", add_tanh, ""}};

TEST_F(PassRunner, RunsInOrderAndRecords) {
  const auto graph = small_graph();
  passes::PassContext context;
  const auto records = run_passes(*graph, context, {}, kSteps);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].name, "grow");
  EXPECT_TRUE(records[0].changed);
  EXPECT_EQ(records[0].nodes_before, 1);
  EXPECT_EQ(records[0].nodes_after, 2);
  EXPECT_FALSE(records[1].changed);
  EXPECT_EQ(records[2].application, 2);
  EXPECT_EQ(graph->num_nodes(), 3);
  ASSERT_EQ(context.remarks().size(), 2u);
  EXPECT_EQ(context.remarks()[0].pass, "grow");
}

TEST_F(PassRunner, SwitchesOffByNameAndStopsAfter) {
  const auto names_run = [](const PassOptions& options) {
    const auto graph = small_graph();
    passes::PassContext context;
    std::vector<std::string> names;
    for (const auto& record : run_passes(*graph, context, options, kSteps)) {
      names.push_back(record.name);
    }
    return names;
  };
  EXPECT_THAT(names_run({.disabled = {"grow"}}), ElementsAre("rest"));
  EXPECT_THAT(names_run({.stop_after = 2}), ElementsAre("grow", "rest"));
  EXPECT_THAT(names_run({.stop_after = 0}), ElementsAre());
  EXPECT_EQ(error_of({.disabled = {"grwo"}}, kSteps),
            "no pass is called 'grwo': use one of grow, rest");
  EXPECT_EQ(error_of({.stop_after = -2}, kSteps),
            "stop after -2 passes: use 0 to 3, or -1 for all");
}

TEST_F(PassRunner, DumpsWhatChangingPassesSawAndLeft) {
  const auto graph = small_graph();
  passes::PassContext context;
  run_passes(*graph, context, {.dump_dir = folder_.string()}, kSteps);
  EXPECT_EQ(ir::parse_graph(read(folder_ / "00.grow.before.txt"))->hash(), small_graph()->hash());
  EXPECT_EQ(ir::parse_graph(read(folder_ / "02.grow.after.txt"))->hash(), graph->hash());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "01.rest.before.txt"));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THAT(error_of({.dump_dir = (folder_ / "file").string()}, kSteps),
              HasSubstr("cannot make the folder"));
}

TEST_F(PassRunner, HoldsPassesToTheirWord) {
  const PassOptions options{.dump_dir = folder_.string()};
  constexpr PipelineStep kClaims[] = {{"boast", claim_only, ""}};
  EXPECT_THAT(error_of(options, kClaims),
              HasSubstr("pass boast (application 0) says that it changed the graph, but has not"));
  constexpr PipelineStep kHides[] = {{"hide", add_tanh_in_secret, ""}};
  EXPECT_THAT(error_of(options, kHides),
              HasSubstr("says that it left the graph unchanged, but has not"));
  EXPECT_THAT(read(folder_ / "00.hide.refused.txt"), HasSubstr("tanh(%x)"));
}

TEST_F(PassRunner, ShowsTheGraphThatAPassFailedOn) {
  constexpr PipelineStep kFails[] = {{"stuck", fail_half_way, ""}};
  const std::string message = error_of({.dump_dir = folder_.string()}, kFails);
  EXPECT_THAT(message, HasSubstr("pass stuck (application 0) failed: "));
  EXPECT_THAT(message, HasSubstr("no way on\nthe graph is in "));
  EXPECT_EQ(read(folder_ / "00.stuck.refused.txt"), ir::to_text(*small_graph()));
}

TEST_F(PassRunner, VerifiesAfterEachChange) {
  constexpr PipelineStep kUnknown[] = {{"unknown", add_unknown_op, ""}};
  constexpr PipelineStep kBroken[] = {{"broken", break_structure, ""}};
  PassOptions options{.dump_dir = folder_.string()};
  EXPECT_THAT(error_of(options, kUnknown), HasSubstr("V1.20 "));
  EXPECT_THAT(error_of(options, kUnknown),
              HasSubstr("the graph is in " + (folder_ / "00.unknown.refused.txt").string()));
  EXPECT_THAT(error_of(options, kBroken), HasSubstr("V1.5 "));
  options.verify = false;
  EXPECT_EQ(error_of(options, kUnknown), "no error");
}

}  // namespace
}  // namespace monograph::compiler
