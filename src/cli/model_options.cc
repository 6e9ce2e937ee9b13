#include "cli/model_options.h"

#include <fmt/ranges.h>

namespace monograph::cli {

void add_model_options(Arguments& arguments, train::ModelConfig& model) {
  arguments.positional("MODEL", &model.name,
                       fmt::format("a preset: {}", fmt::join(train::model_names(), ", ")));
  const auto size = [&](const char* name, int64_t* target, const char* doc) {
    arguments.option(name, target, fmt::format("{}; -1: the preset's", doc));
  };
  size("layers", &model.num_layers, "transformer blocks, or hidden layers");
  size("heads", &model.num_heads, "attention heads");
  size("embd", &model.embedding, "width of the embedding");
  size("hidden", &model.hidden, "width of hidden layers (mlp)");
  size("block", &model.block, "bytes of context");
  size("batch", &model.batch, "rows in a step");
  arguments.option("dropout", &model.dropout, "share of activations dropped; -1: the preset's");
}

void add_compile_options(Arguments& arguments, session::CompileOptions& options) {
  arguments.option("backend", &options.backend, "what runs the step", {"cpu", "interpret", "null"});
  arguments.option("precision", &options.precision, "what products compute in", {"f32", "bf16"});
  arguments.option("verify", &options.verify, "checks of the graph", {"off", "warn", "fatal"});
  arguments.option("disable-pass", &options.disabled_passes, "passes to leave out");
  arguments.option("stop-after", &options.stop_after,
                   "run only so many of the passes that may be left out; -1: all");
  arguments.option("loss-chunk-bytes", &options.loss_chunk_bytes,
                   "most bytes of logits at a time, where nothing needs them whole");
  arguments.option("dump-dir", &options.dump_dir,
                   "write the graph before and after each pass to this folder");
}

}  // namespace monograph::cli
