// Trains a small GPT on the bytes of a text file and prints the compiled step's graph.
// Usage: train_gpt TEXT_FILE [STEPS]
#include <fmt/format.h>

#include "base/error.h"
#include "frontend/session/monograph.h"
#include "ir/printer.h"
#include "train/text_data.h"

using namespace monograph;

int main(int argc, char** argv) try {
  if (argc < 2) throw_user_error("no text: give a file of plain text");
  const int64_t num_steps = argc > 2 ? std::stoll(argv[2]) : 200;
  const train::TextData data(argv[1], 64);

  nn::GPT model({.vocab_size = 256, .block_size = 64, .n_layer = 2, .n_head = 2, .n_embd = 64});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::cosine(3e-3, 3e-4, 20, num_steps),
                          .weight_decay = 0.1,
                          .max_norm = 1.0});
  auto step = compile([&](const Tensor& tokens, const Tensor& targets) {
    const Tensor loss = model.loss(tokens, targets);
    optimizer.step(loss.backward());
    return loss;
  });

  for (int64_t i = 0; i < num_steps; ++i) {
    const train::Batch batch = data.training_batch(1, i, 16);
    const double loss = step(batch.tokens, batch.targets).loss();
    if (i % 20 == 19) fmt::print("step {:>4}  loss {:.4f}\n", i + 1, loss);
  }
  const DType i64 = DType::kI64;
  fmt::print("the step is one graph of {} nodes\n",
             step.graph({{i64, {16, 64}}, {i64, {16, 64}}}).num_nodes());
} catch (const UserError& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
