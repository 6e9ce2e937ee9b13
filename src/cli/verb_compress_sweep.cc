#include "cli/model_options.h"
#include "cli/verbs.h"
#include "train/compression_sweep.h"

namespace monograph::cli {

int run_compress_sweep(std::span<const std::string> args) {
  train::SweepConfig config;
  Arguments arguments(
      "monograph compress-sweep",
      "trains a model with gradients compressed in several ways, and says what each "
      "sends, and where training breaks");
  add_model_options(arguments, config.model, /*takes_images=*/false);
  arguments.option("data", &config.data_path,
                   "plain text; or tokens of 16 bits (.bin of nanoGPT or llm.c)");
  arguments.option("steps", &config.num_steps, "training steps of each run");
  arguments.option("ranks", &config.num_ranks, "threads of this process that share each batch");
  arguments.option("settings", &config.settings,
                   "qsgd:BITS, topk:FRACTION or powersgd:RANK, beside a run without");
  arguments.option("tolerance", &config.tolerance,
                   "share of the loss without compression by which a run may lie above it");
  arguments.option("lr", &config.learning_rate, "peak learning rate");
  arguments.option("seed", &config.seed, "of weights, batches and rounding");
  add_compile_options(arguments, config.options);
  if (!arguments.parse(args)) return 0;
  train::print(stdout, config, train::sweep_compression(config));
  return 0;
}

}  // namespace monograph::cli
