// Attention in a model, compiled: against the interpreter, without copies around it, and the same
// bits for any number of threads.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "compiler/compile.h"
#include "frontend/session/monograph.h"

namespace monograph {
namespace {

struct Shape {
  int64_t batch, length, heads, kv_heads, width;
  bool is_causal;
  int64_t memory_length = 0;  // keys from elsewhere; 0: the length
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << fmt::format("{}x{}, {} heads on {} of {}{}, memory {}", s.batch, s.length, s.heads,
                            s.kv_heads, s.width, s.is_causal ? ", causal" : "", s.memory_length);
}

// A block as transformers have it: packed projection, heads, attention, projection back.
struct Block : nn::Module {
  explicit Block(const Shape& s)
      : shape(s),
        project(*this, "project", kWidth, (s.heads + 2 * s.kv_heads) * s.width),
        back(*this, "back", s.heads * s.width, kWidth) {}

  Tensor heads_of(const Tensor& x, int64_t count) const {
    return x.reshape({x.dim(0), x.dim(1), count, shape.width}).permute({0, 2, 1, 3});
  }

  Tensor operator()(const Tensor& x, const Tensor& memory) const {
    const std::vector<int64_t> sizes = {shape.heads * shape.width, shape.kv_heads * shape.width,
                                        shape.kv_heads * shape.width};
    const std::vector<Tensor> here = project(x).split(sizes, -1);
    const std::vector<Tensor> there =
        shape.memory_length == 0 ? here : project(memory).split(sizes, -1);
    const Tensor mixed =
        attention(heads_of(here[0], shape.heads), heads_of(there[1], shape.kv_heads),
                  heads_of(there[2], shape.kv_heads), shape.is_causal);
    const Tensor joined =
        mixed.permute({0, 2, 1, 3}).reshape({x.dim(0), x.dim(1), shape.heads * shape.width});
    return back(joined);
  }

  static constexpr int64_t kWidth = 24;
  Shape shape;
  nn::Linear project, back;
};

ir::Literal wave(ir::Shape shape, double step) {
  return ir::Literal::from({ir::DType::kF32, std::move(shape)},
                           [=](int64_t i) { return std::sin(step * static_cast<double>(i)); });
}

auto step_of(const Block& block) {
  return [&block](const Tensor& x, const Tensor& memory) {
    const Tensor y = block(x, memory);
    const Tensor loss = mean(y * y * y);
    const trace::Gradients gradients = loss.backward();
    Outputs outputs{{"loss", loss}, {"y", y}};
    for (const trace::Parameter& parameter : block.parameters()) {
      outputs.emplace_back(parameter.name(), gradients[parameter]);
    }
    return outputs;
  };
}

std::vector<ir::Literal> inputs_of(const Shape& s) {
  const int64_t memory_length = s.memory_length == 0 ? 1 : s.memory_length;
  return {wave({s.batch, s.length, Block::kWidth}, 0.7),
          wave({s.batch, memory_length, Block::kWidth}, 0.3)};
}

std::vector<ir::Literal> run(const Shape& shape, const std::string& backend) {
  Block block(shape);
  Session session({.seed = 5, .options = {.backend = backend}});
  session::Compiled step = session.compile(step_of(block));
  const std::vector<ir::Literal> inputs = inputs_of(shape);
  const session::Results results = step(inputs[0], inputs[1]);
  std::vector<ir::Literal> outputs = {results["y"]};
  for (const trace::Parameter& parameter : block.parameters()) {
    outputs.push_back(results[parameter.name()]);
  }
  return outputs;
}

const Shape kShapes[] = {{2, 12, 2, 2, 8, true},       {1, 37, 3, 1, 16, true},
                         {2, 19, 4, 2, 6, false},      {1, 1, 2, 2, 8, true},
                         {1, 9, 2, 1, 16, true, 70},   {2, 5, 2, 2, 32, false, 3},
                         {1, 140, 1, 1, 20, true, 300}};

TEST(CompiledAttention, AgreesWithTheInterpreter) {
  for (const Shape& shape : kShapes) {
    const auto expected = run(shape, "interpret"), found = run(shape, "cpu");
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(found[k].type(), expected[k].type());
      for (int64_t i = 0; i < expected[k].num_elements(); ++i) {
        ASSERT_NEAR(found[k].get(i), expected[k].get(i), 1e-5)
            << shape << ", output " << k << " at " << i;
      }
    }
  }
}

TEST(CompiledAttention, GivesTheSameBitsForAnyNumberOfThreads) {
  const int num_threads = omp_get_max_threads();
  for (const Shape& shape : kShapes) {
    omp_set_num_threads(1);
    const auto one = run(shape, "cpu");
    omp_set_num_threads(3);
    EXPECT_EQ(run(shape, "cpu"), one) << shape;
  }
  omp_set_num_threads(num_threads);
}

// q, k, v are read where the packed product lies, their gradients written where the product of the
// backward reads them; the same of the output.
TEST(CompiledAttention, NeedsNoCopies) {
  const Shape shape{2, 40, 4, 2, 16, true};
  Block block(shape);
  session::Compiled step = compile(step_of(block));
  const std::vector<ir::Literal> inputs = inputs_of(shape);
  passes::StateLayout states;
  const compiler::Compilation compilation =
      compiler::compile(step.graph({inputs[0].type(), inputs[1].type()}), states, {});
  int num_attentions = 0;
  for (const ir::Step& each : compilation.program.steps) {
    num_attentions += std::holds_alternative<ir::AttentionStep>(each.work);
    EXPECT_EQ(each.name.find("clone"), std::string::npos) << each.name;
  }
  EXPECT_EQ(num_attentions, 2);
  for (const passes::Remark& remark : compilation.remarks) {
    EXPECT_EQ(remark.reason.find("copied"), std::string::npos) << remark.reason;
  }
}

}  // namespace
}  // namespace monograph
