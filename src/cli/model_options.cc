#include "cli/model_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace monograph::cli {

void add_model_options(Arguments& arguments, train::ModelConfig& model, bool takes_images) {
  const auto names = takes_images ? train::model_names() : train::language_model_names();
  arguments.positional("MODEL", &model.name, fmt::format("a preset: {}", fmt::join(names, ", ")));
  const auto size = [&](const char* name, int64_t* target, const char* doc) {
    arguments.option(name, target, fmt::format("{}; -1: the preset's", doc));
  };
  size("vocab", &model.vocab, "distinct tokens; a text has 256, its bytes");
  size("layers", &model.num_layers, "transformer blocks, or hidden layers");
  size("heads", &model.num_heads, "attention heads");
  size("kv-heads", &model.num_kv_heads, "heads of keys and values (llama)");
  size("embd", &model.embedding, "width of the embedding");
  size("hidden", &model.hidden, "width of hidden layers (mlp, llama)");
  size("block", &model.block, "tokens of context");
  size("batch", &model.batch, "rows in a step");
  if (takes_images) {
    size("image", &model.image, "pixels a side of images (resnet)");
    size("classes", &model.classes, "kinds of images (resnet)");
  }
  arguments.option("dropout", &model.dropout, "share of activations dropped; -1: the preset's");
}

void add_compile_options(Arguments& arguments, session::CompileOptions& options) {
  arguments.option("backend", &options.backend, "what runs the step",
                   {"cpu", "cuda", "interpret", "null"});
  arguments.option("device", &options.backend, "the same, by what it runs on", {"cpu", "cuda"});
  arguments.option("target", &options.target,
                   "what backend null compiles for; CUDA code by NVRTC, without a GPU",
                   {"cpu", "h200"});
  arguments.option("mode", &options.mode, "how a GPU is driven",
                   {"default", "reduce-overhead", "max-autotune"});
  arguments.option("precision", &options.precision, "what products compute in", {"f32", "bf16"});
  arguments.option("residual", &options.residual,
                   "what the residual stream of a model is kept in; bf16 with precision bf16",
                   {"f32", "bf16"});
  arguments.option("deterministic", &options.deterministic,
                   "on GPUs: the same bits in each run; without, attention's backward is faster");
  arguments.option("memory-budget", &options.memory_budget,
                   "bytes that the step may take (60MB), or a fraction of what it takes (0.7); "
                   "values are made again rather than kept");
  arguments.option("recompute", &options.recompute, "what a memory budget may make again",
                   {"cheap", "products"});
  arguments.option("verify", &options.verify, "checks of the graph", {"off", "warn", "fatal"});
  arguments.option("disable-pass", &options.disabled_passes, "passes to leave out");
  arguments.option("stop-after", &options.stop_after,
                   "run only so many of the passes that may be left out; -1: all");
  arguments.option("loss-chunk-bytes", &options.loss_chunk_bytes,
                   "most bytes of logits at a time, where nothing needs them whole; 0: what "
                   "suits the device");
  arguments.option("compiler", &options.compiler,
                   "the g++ that compiles kernels, with arguments; default: $CXX, else g++");
  arguments.option("cache-dir", &options.cache_dir,
                   "folder of compiled kernels; ${NAME} stands for a variable, as in "
                   "/scratch/${SLURM_JOB_ID}/rank_${RANK}; default: $MONOGRAPH_CACHE_DIR");
  arguments.option("compile-timeout", &options.compile_timeout,
                   "seconds after which the step runs without compiled kernels, slower, until they "
                   "are there; 0: waits for them; auto: what suits the kernels");
  arguments.option("suppress-errors", &options.suppress_errors,
                   "where kernels cannot be compiled, run without them, slower, with a warning");
  arguments.option("comm-optimization-level", &options.comm_optimization_level,
                   "0: exchanges between ranks as written; 1: of gradients in buckets; 2: beside "
                   "the computation, too");
  arguments.option("dump-dir", &options.dump_dir,
                   "write the graph before and after each pass to this folder");
}

void add_moments_option(Arguments& arguments, std::string& moments) {
  arguments.option("moments", &moments, "what AdamW's moments are kept in", {"f32", "bf16"});
}

void add_mesh_options(Arguments& arguments, MeshOptions& options) {
  arguments.option("mesh", &options.axes,
                   "axes over the ranks, NAME=SIZE,...: dp (copies of the model), fsdp (parts of "
                   "its parameters), tp (parts of each matrix), pp (some of its layers each); "
                   "default: dp over all ranks");
  arguments.option("strategy", &options.strategy,
                   "what ranks of axis fsdp keep: their part, gathered for each pass; or for both "
                   "passes; or hybrid, with copies over axis dp",
                   {"full-shard", "shard-grad-op", "hybrid"});
  arguments.option("sequence-parallel", &options.is_sequence_parallel,
                   "ranks of axis tp do norms and residuals in parts of the sequence");
  arguments.option("link", &options.link,
                   "what an exchange takes, latency and bandwidth, as 30us:4GB/s; sizes of buckets "
                   "follow from it");
  arguments.option("compress", &options.compress,
                   "how gradients are exchanged in fewer bytes: qsgd:BITS, topk:FRACTION or "
                   "powersgd:RANK");
  arguments.option("schedule", &options.schedule,
                   "of axis pp, in which order its ranks work on the micro-batches",
                   {"1f1b", "interleaved", "zb-h1"});
  arguments.option("chunks", &options.chunks, "stages of a rank of axis pp, if interleaved");
  arguments.option("cut", &options.cut,
                   "what ranks of axis pp have: equal numbers of layers, or about equal work",
                   {"layers", "cost"});
}

void add_stage_option(Arguments& arguments, MeshOptions& options) {
  arguments.option("stage", &options.stage, "the place on axis pp whose step is shown");
}

void add_micro_batches_option(Arguments& arguments, int64_t& count) {
  arguments.option("accumulate", &count,
                   "micro-batches that a step's rows are split into, one after the other");
  arguments.option("micro-batches", &count, "the same, of ranks of axis pp beside each other");
}

nn::PipelineOptions MeshOptions::pipeline(int64_t micro_batches) const {
  return {.micro_batches = micro_batches,
          .schedule = nn::parse_pipeline_schedule(schedule),
          .chunks = chunks,
          .cut = nn::parse_pipeline_cut(cut)};
}

ops::Compression MeshOptions::compression(const ir::Mesh& mesh) const {
  const ops::Compression result = ops::parse_compression(compress);
  if (!result.is_on()) return result;
  if (mesh.has_stages()) {
    throw_user_error(
        "--compress {} with axis pp: gradients of a pipeline go uncompressed; leave one "
        "of them out",
        compress);
  }
  if (mesh.batch_part(0).second > 1) return result;
  throw_user_error(
      "--compress {} on {}: no ranks exchange gradients there; leave it out, or use several ranks, "
      "as --mesh dp=2",
      compress, mesh.axes().empty() ? "one rank" : mesh.str());
}

ir::Mesh MeshOptions::mesh() const {
  std::vector<ir::Mesh::Axis> result;
  for (const std::string& text : axes) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    int64_t size = 0;
    const char* const begin = text.data() + std::min(equals, text.size() - 1) + 1;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), size);
    if (equals == text.npos || error != std::errc() || end != text.data() + text.size()) {
      throw_user_error("--mesh {}: give axes with their sizes, as dp=2,fsdp=4", text);
    }
    if (name != "dp" && name != "fsdp" && name != "tp" && name != ir::kPipelineAxis) {
      throw_user_error("--mesh {}: unknown axis '{}': use dp, fsdp, tp or pp", text, name);
    }
    result.push_back({name, size});
  }
  ir::Mesh mesh(std::move(result));
  if (strategy != "full-shard" && !mesh.has("fsdp")) {
    throw_user_error("--strategy {} without axis fsdp: give it one, as --mesh fsdp=2", strategy);
  }
  if (is_sequence_parallel && !mesh.has("tp")) {
    throw_user_error("--sequence-parallel without axis tp: give it one, as --mesh tp=2");
  }
  if ((schedule != "1f1b" || cut != "layers") && !mesh.has(ir::kPipelineAxis)) {
    throw_user_error("--schedule {} --cut {} without axis pp: give it one, as --mesh pp=2",
                     schedule, cut);
  }
  return mesh;
}

}  // namespace monograph::cli
