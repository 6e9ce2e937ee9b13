#include "runtime/cuda/cudnn_attention.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/dynamic_library.h"
#include "base/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend looks its functions up here
}

namespace monograph::runtime {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kLeastVersion = 90100;  // deterministic backward on Hopper

enum Uid : int64_t { kQ = 1, kK, kV, kOutput, kLogsumexp, kGradOutput, kGradQ, kGradK, kGradV };

struct Libraries {
  // The frontend opens the runtime by its bare name, which finds one that is already open.
  DynamicLibrary runtime{"cuDNN needs the CUDA runtime",
                         cuda_library_candidates({"libcudart.so.13"}),
                         "install it, or add its folder to LD_LIBRARY_PATH"};
  DynamicLibrary cudnn{"attention on GPUs is done by cuDNN 9",
                       cuda_library_candidates({"libcudnn.so.9"}),
                       "install cuDNN 9, or add its folder to LD_LIBRARY_PATH"};
  Libraries() { fe::cudnn_dlhandle = dlopen(cudnn.path().c_str(), RTLD_NOW | RTLD_LOCAL); }
};

const Libraries& libraries() {
  static const Libraries* const loaded = new Libraries;  // never closed: exit handlers still run
  return *loaded;
}

void check_status(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw_user_error("{} gave {} (cuDNN {} from {}): see that this library fits the driver", call,
                   fe::detail::get_error_string(status), fe::detail::get_backend_version(),
                   libraries().cudnn.path());
}

}  // namespace

// A graph of cuDNN with its plans; serves every step of the same sizes and strides.
struct Cudnn::Plan {
  fe::graph::Graph graph;
  cudnnHandle_t handle = nullptr;
  std::string refusal;  // why there is no plan; empty: there is
  int64_t workspace_bytes = 0;
  int64_t num_plans = 0, chosen = 0;  // of a search
  bool is_searched = false;

  TensorPtr tensor(Uid uid, int64_t heads, int64_t positions, int64_t width,
                   const std::array<int64_t, 3>& strides, int64_t batch);
  static void place(const TensorPtr& result, Uid uid, const std::array<int64_t, 3>& strides);
  void forward(const ir::AttentionStep& step);
  void backward(const ir::AttentionStep& step);
  std::string build(bool all);
};

struct Cudnn::Data {
  cudnnHandle_t handle = nullptr;
  size_t version = 0;
  bool builds_all = false;
  std::map<std::string, std::shared_ptr<Plan>> plans;  // by sizes and strides
};

Cudnn::Cudnn(const device::cuda::ContextPtr& context, bool builds_all)
    : data_(std::make_unique<Data>()) {
  data_->builds_all = builds_all;
  const Libraries& loaded = libraries();
  data_->version = fe::detail::get_backend_version();
  if (data_->version < kLeastVersion) {
    throw_user_error("cuDNN {} ({}) is too old: install {} or newer", version(),
                     loaded.cudnn.path(), "9.1");
  }
  context->make_current();
  check_status(fe::detail::create_handle(&data_->handle), "cudnnCreate");
}

Cudnn::~Cudnn() {
  if (data_->handle != nullptr) fe::detail::destroy_handle(data_->handle);
}

std::string Cudnn::version() const {
  return fmt::format("{}.{}.{}", data_->version / 10000, data_->version / 100 % 100,
                     data_->version % 100);
}

TensorPtr Cudnn::Plan::tensor(Uid uid, int64_t heads, int64_t positions, int64_t width,
                              const std::array<int64_t, 3>& strides, int64_t batch) {
  return graph.tensor(
      fe::graph::Tensor_attributes()
          .set_uid(uid)
          .set_dim({batch, heads, positions, width})
          .set_stride({strides[0], strides[1], strides[2], 1})
          .set_data_type(width == 1 ? fe::DataType_t::FLOAT : fe::DataType_t::BFLOAT16));
}

void Cudnn::Plan::place(const TensorPtr& result, Uid uid, const std::array<int64_t, 3>& strides) {
  result->set_output(true).set_uid(uid).set_stride({strides[0], strides[1], strides[2], 1});
}

void Cudnn::Plan::forward(const ir::AttentionStep& s) {
  const TensorPtr q = tensor(kQ, s.heads, s.queries, s.width, s.q.strides, s.batch);
  const TensorPtr k = tensor(kK, s.kv_heads, s.keys, s.width, s.k.strides, s.batch);
  const TensorPtr v = tensor(kV, s.kv_heads, s.keys, s.width, s.v.strides, s.batch);
  auto options = fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(
      static_cast<float>(s.scale));
  if (s.causal && s.queries == s.keys) options.set_causal_mask(true);
  if (s.causal && s.queries != s.keys) options.set_causal_mask_bottom_right(true);
  auto [output, logsumexp] = graph.sdpa(q, k, v, options);
  output->set_dim({s.batch, s.heads, s.queries, s.width});
  place(output, kOutput, s.output.strides);
  logsumexp->set_dim({s.batch, s.heads, s.queries, 1}).set_data_type(fe::DataType_t::FLOAT);
  place(logsumexp, kLogsumexp, s.logsumexp.strides);
}

void Cudnn::Plan::backward(const ir::AttentionStep& s) {
  const TensorPtr q = tensor(kQ, s.heads, s.queries, s.width, s.q.strides, s.batch);
  const TensorPtr k = tensor(kK, s.kv_heads, s.keys, s.width, s.k.strides, s.batch);
  const TensorPtr v = tensor(kV, s.kv_heads, s.keys, s.width, s.v.strides, s.batch);
  const TensorPtr output = tensor(kOutput, s.heads, s.queries, s.width, s.output.strides, s.batch);
  const TensorPtr grad_output =
      tensor(kGradOutput, s.heads, s.queries, s.width, s.grad_output.strides, s.batch);
  const TensorPtr logsumexp =
      tensor(kLogsumexp, s.heads, s.queries, 1, s.logsumexp.strides, s.batch);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_attn_scale(static_cast<float>(s.scale))
                     .set_deterministic_algorithm(true);
  if (s.causal && s.queries == s.keys) options.set_causal_mask(true);
  if (s.causal && s.queries != s.keys) options.set_causal_mask_bottom_right(true);
  auto [grad_q, grad_k, grad_v] =
      graph.sdpa_backward(q, k, v, output, grad_output, logsumexp, options);
  grad_q->set_dim({s.batch, s.heads, s.queries, s.width});
  grad_k->set_dim({s.batch, s.kv_heads, s.keys, s.width});
  grad_v->set_dim({s.batch, s.kv_heads, s.keys, s.width});
  place(grad_q, kGradQ, s.grad_q.strides);
  place(grad_k, kGradK, s.grad_k.strides);
  place(grad_v, kGradV, s.grad_v.strides);
}

// Empty, or why cuDNN has no plan.
std::string Cudnn::Plan::build(bool all) {
  const auto failed = [](fe::error_t error) {
    return error.is_good() ? std::string() : error.get_message();
  };
  const auto policy = all ? fe::BuildPlanPolicy_t::ALL : fe::BuildPlanPolicy_t::HEURISTICS_CHOICE;
  std::string why = failed(graph.validate());
  if (why.empty()) why = failed(graph.build_operation_graph(handle));
  if (why.empty()) why = failed(graph.create_execution_plans({fe::HeurMode_t::A}));
  graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  if (why.empty()) why = failed(graph.check_support(handle));
  if (why.empty()) why = failed(graph.build_plans(handle, policy));
  if (why.empty()) why = failed(graph.get_workspace_size(workspace_bytes));
  if (!why.empty() || !all) return why;
  num_plans = graph.get_execution_plan_count();
  workspace_bytes = std::max(workspace_bytes, graph.get_autotune_workspace_size());
  return why;
}

namespace {

std::string signature(const ir::AttentionStep& s) {
  std::string text = fmt::format("{} {} {} {}/{} {} {} {} {}", s.is_backward, s.causal, s.batch,
                                 s.heads, s.kv_heads, s.queries, s.keys, s.width, s.scale);
  for (const auto* each : {&s.q, &s.k, &s.v, &s.output, &s.logsumexp, &s.grad_output, &s.grad_q,
                           &s.grad_k, &s.grad_v}) {
    text += fmt::format(" {}", fmt::join(each->strides, ","));
  }
  return text;
}

}  // namespace

std::shared_ptr<Cudnn::Plan> Cudnn::plan(const ir::AttentionStep& step) const {
  std::shared_ptr<Plan>& plan = data_->plans[signature(step)];
  if (plan != nullptr) return plan;
  plan = std::make_shared<Plan>();
  plan->handle = data_->handle;
  if (step.dtype != ir::DType::kBF16) {
    plan->refusal =
        fmt::format("its fused attention takes bf16, the step is {}", ir::dtype_name(step.dtype));
    return plan;
  }
  plan->graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (step.is_backward) {
    plan->backward(step);
  } else {
    plan->forward(step);
  }
  plan->refusal = plan->build(data_->builds_all);
  return plan;
}

struct CudnnAttention::Binding {
  std::shared_ptr<Cudnn::Plan> plan;
  std::unordered_map<int64_t, void*> pointers;
  CUdeviceptr workspace = 0;
};

std::unique_ptr<CudnnAttention> CudnnAttention::create(const ir::AttentionStep& step,
                                                       const CudaAttention::Locate& locate,
                                                       const Cudnn& cudnn, std::string* refusal) {
  auto bound = std::make_unique<Binding>();
  bound->plan = cudnn.plan(step);
  *refusal = bound->plan->refusal;
  if (!refusal->empty()) return nullptr;
  const auto point = [&](Uid uid, const ir::AttentionStep::Tensor& tensor) {
    bound->pointers[uid] = device::cuda::to_pointer(locate(tensor.address));
  };
  point(kQ, step.q);
  point(kK, step.k);
  point(kV, step.v);
  point(kOutput, step.output);
  point(kLogsumexp, step.logsumexp);
  if (step.is_backward) {
    point(kGradOutput, step.grad_output);
    point(kGradQ, step.grad_q);
    point(kGradK, step.grad_k);
    point(kGradV, step.grad_v);
  }
  return std::unique_ptr<CudnnAttention>(new CudnnAttention(std::move(bound)));
}

CudnnAttention::CudnnAttention(std::unique_ptr<Binding> bound) : bound_(std::move(bound)) {}
CudnnAttention::~CudnnAttention() = default;

int64_t CudnnAttention::workspace_bytes() const {
  return bound_->plan->workspace_bytes;
}

CUdeviceptr CudnnAttention::workspace() const {
  return bound_->workspace;
}

void CudnnAttention::set_workspace(CUdeviceptr workspace) {
  bound_->workspace = workspace;
}

// Once a plan: steps that share it share the choice.
void CudnnAttention::search(const device::cuda::Stream& stream) {
  constexpr int kRounds = 3;
  Cudnn::Plan& plan = *bound_->plan;
  if (plan.num_plans < 2) return;
  const device::cuda::Event start(stream.context(), true), end(stream.context(), true);
  double best_ms = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t i = 0; i < plan.num_plans; ++i) {
      stream.record(start);
      if (!launch(stream, i)) continue;
      stream.record(end);
      end.synchronize();
      const double ms = end.ms_since(start);
      if (round == 0 || ms >= best_ms) continue;  // the first round loads code
      best_ms = ms;
      plan.chosen = i;
    }
  }
  plan.num_plans = 0;  // chosen
  plan.is_searched = true;
}

bool CudnnAttention::launch(const device::cuda::Stream& stream, int64_t index) const {
  Cudnn::Plan& plan = *bound_->plan;
  check_status(fe::detail::set_stream(plan.handle, reinterpret_cast<cudaStream_t>(stream.handle())),
               "cudnnSetStream");
  return plan.graph
      .execute_plan_at_index(plan.handle, bound_->pointers,
                             device::cuda::to_pointer(bound_->workspace), index)
      .is_good();
}

void CudnnAttention::run(const device::cuda::Stream& stream) const {
  Cudnn::Plan& plan = *bound_->plan;
  if (plan.is_searched) {
    check(launch(stream, plan.chosen), "a plan of cuDNN that ran before does not");
    return;
  }
  check_status(fe::detail::set_stream(plan.handle, reinterpret_cast<cudaStream_t>(stream.handle())),
               "cudnnSetStream");
  fe::error_t error = plan.graph.execute(plan.handle, bound_->pointers,
                                         device::cuda::to_pointer(bound_->workspace));
  if (!error.is_good()) throw_user_error("cuDNN's attention failed: {}", error.get_message());
}

}  // namespace monograph::runtime
