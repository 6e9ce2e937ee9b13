#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "frontend/session/monograph.h"
#include "verify/explain/drawing.h"
#include "verify/explain/explanation.h"
#include "verify/explain/folded_steps.h"
#include "verify/explain/provenance.h"
#include "verify/explain/step_nodes.h"

namespace monograph::verify {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A compiled training step of a small GPT, not run.
class Explained {
 public:
  explicit Explained(int64_t num_layers)
      : model_(
            {.vocab_size = 16, .block_size = 8, .n_layer = num_layers, .n_head = 2, .n_embd = 8}),
        adamw_(model_.parameters(), {.learning_rate = optim::Schedule::constant(1e-3)}),
        step_(session_.compile([this](const Tensor& x, const Tensor& y) {
          const Tensor loss = model_.loss(x, y);
          adamw_.step(loss.backward());
          return loss;
        })) {}

  const compiler::Compilation& compilation() { return build().compilation; }
  const session::Build& build() { return *step_.executable(types_).build(); }
  Explanation explanation() {
    return explain(step_.guards(types_), step_.trace_record(types_), step_.breaks(), build());
  }

 private:
  const std::vector<ir::TensorType> types_ = {{ir::DType::kI64, {2, 8}}, {ir::DType::kI64, {2, 8}}};
  nn::GPT model_;
  optim::AdamW adamw_;
  session::Session session_{{.options = {.backend = "null", .records_lineage = true}}};
  session::Compiled step_;
};

TEST(Explain, CountsAreThoseOfTheProgram) {
  Explained two(2);
  const Explanation e = two.explanation();
  ASSERT_GE(e.guards.size(), 2u);
  EXPECT_THAT(e.guards[0].second, testing::StartsWith("i64[2,8] (used at "));
  EXPECT_EQ(e.kernels.size(), two.compilation().program.kernels.size());
  EXPECT_GT(e.fused_share(), 0.9);
  int unfused = 0, remarks = 0;
  for (const UnfusedRow& row : e.unfused) unfused += row.num_edges;
  for (const auto& remark : two.compilation().remarks) remarks += !remark.cause.empty();
  EXPECT_EQ(unfused, remarks);
  const int64_t peak = *std::max_element(e.scratch_bytes.begin(), e.scratch_bytes.end());
  EXPECT_LE(peak, two.compilation().program.segment_bytes[static_cast<int>(ir::Segment::kScratch)]);
  EXPECT_GE(e.persistent_bytes + peak, two.compilation().program.bound_bytes - 4096);
  EXPECT_THAT(to_text(e), HasSubstr("fusion: "));
  const auto json = nlohmann::json::parse(to_json(e));
  EXPECT_EQ(json["kernels"].size(), e.kernels.size());
  EXPECT_EQ(json["memory"]["scratch_bytes_by_step"].size(), two.compilation().program.steps.size());
}

TEST(Explain, EqualBlocksAreDrawnOnce) {
  Explained four(4), six(6);
  const FoldedSteps few = fold_steps(four.compilation()), many = fold_steps(six.compilation());
  EXPECT_EQ(few.nodes.size(), many.nodes.size());
  size_t steps = 0;
  for (const FoldedStep& node : many.nodes) steps += node.steps.size();
  EXPECT_EQ(steps, six.compilation().program.steps.size());
  EXPECT_LT(2 * many.nodes.size(), steps);
  const auto folded = std::find_if(many.nodes.begin(), many.nodes.end(),
                                   [](const FoldedStep& node) { return node.blocks.size() == 6; });
  ASSERT_NE(folded, many.nodes.end());
  EXPECT_EQ(ranges_text(folded->blocks), "0 to 5");
  EXPECT_EQ(ranges_text({0, 2, 3, 5}), "0, 2 to 3, 5");
}

TEST(Explain, EveryNodeLeadsToItsStepsAndBack) {
  Explained two(2);
  const compiler::Compilation& compilation = two.compilation();
  const auto& traced = compilation.lineage[0].nodes;
  for (size_t step = 0; step < compilation.program.steps.size(); ++step) {
    const std::vector<int> origins = origins_of_step(compilation, static_cast<int>(step));
    EXPECT_FALSE(origins.empty()) << compilation.program.steps[step].name;
    for (int node : origins) {
      EXPECT_THAT(steps_of(compilation, node), Contains(static_cast<int>(step)))
          << traced[node].text;
    }
  }
  for (int node : find_traced(compilation, "tanh")) {
    const std::string path = path_of(compilation, node);
    EXPECT_THAT(path, HasSubstr("fuse"));
    EXPECT_THAT(path, HasSubstr("kernel "));
    EXPECT_THAT(path, HasSubstr(".mlp"));
  }
  EXPECT_EQ(find_traced(compilation, "h.1.attn.c_attn.weight").size(), 1u);
  EXPECT_EQ(find_traced(compilation, "%40").size(), 1u);
  EXPECT_GT(find_traced(compilation, "h.1").size(), find_traced(compilation, "h.1.attn").size());
}

// A bucket leads back to each gradient's all_reduce that it stands for, and they lead to it.
TEST(Explain, ABucketLeadsToTheReductionsThatItStandsFor) {
  const ir::Mesh mesh({{"data", 4}});
  nn::MLP model({.vocab_size = 16, .block_size = 4, .n_embd = 16, .n_hidden = 24});
  optim::SGD sgd(model.parameters(), {.learning_rate = optim::Schedule::constant(0.1)});
  session::CompileOptions options{.backend = "null", .records_lineage = true};
  options.link = ir::LinkModel{.latency_s = 1e-9, .bytes_per_s = 1e12};  // many small buckets
  session::Compiled step = session::compile(
      [&](const trace::Tensor& x, const trace::Tensor& y) {
        const trace::Tensor loss = model.loss(x, y);
        sgd.step(nn::replicate(loss.backward(), mesh));
        return loss;
      },
      options);
  const std::vector<ir::TensorType> types = {{ir::DType::kI64, {3, 4}}, {ir::DType::kI64, {3}}};
  const compiler::Compilation& compilation = step.executable(types).build()->compilation;
  const auto& traced = compilation.lineage[0].nodes;
  int num_buckets = 0, num_reductions = 0;
  for (size_t i = 0; i < compilation.program.steps.size(); ++i) {
    const auto* collective = std::get_if<ir::CollectiveStep>(&compilation.program.steps[i].work);
    if (collective == nullptr) continue;
    ++num_buckets;
    int own = 0;
    for (int node : origins_of_step(compilation, static_cast<int>(i))) {
      if (traced[node].op != "all_reduce") continue;
      ++own;
      EXPECT_THAT(steps_of(compilation, node), Contains(static_cast<int>(i)));
    }
    EXPECT_EQ(own, collective->num_tensors);
    num_reductions += own;
  }
  EXPECT_GE(num_buckets, 1);
  EXPECT_GE(num_reductions, static_cast<int>(find_traced(compilation, "all_reduce").size()));
}

TEST(Explain, UnknownNodesAreRefusedWithNamesThatExist) {
  Explained one(1);
  try {
    find_traced(one.compilation(), "h.7");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no traced node is 'h.7'"));
    EXPECT_THAT(error.what(), HasSubstr("h.0"));
  }
}

TEST(Explain, DrawsByDotOrSaysThatItIsMissing) {
  Explained three(3);
  const std::string dot = to_dot(fold_steps(three.compilation()), "a \"step\"", "cpu");
  EXPECT_THAT(dot, HasSubstr("cluster forward h.*"));
  EXPECT_THAT(dot, HasSubstr("blocks, drawn once"));
  const std::string path = testing::TempDir() + "/step.svg";
  const std::string old = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  std::string message = "none";
  try {
    write_svg(dot, path);
  } catch (const UserError& error) {
    message = error.what();
  }
  setenv("PATH", old.c_str(), 1);
  EXPECT_THAT(message, HasSubstr("install the package graphviz"));
  if (std::system("dot -V >/dev/null 2>&1") != 0) GTEST_SKIP() << "Graphviz is not installed";
  write_svg(dot, path);
  std::ifstream file(path);
  const std::string svg((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, HasSubstr("optimizer"));
  EXPECT_THROW(write_svg(dot, "/nowhere/step.svg"), UserError);
}

}  // namespace
}  // namespace monograph::verify
