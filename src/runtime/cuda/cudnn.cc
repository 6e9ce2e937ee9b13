#include "runtime/cuda/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "runtime/cuda/cudnn_plan.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend looks its functions up here
}

namespace monograph::runtime {
namespace {

constexpr int64_t kLeastVersion = 90100;  // deterministic backward of attention on Hopper
constexpr int64_t kMostWorkspace = int64_t{1} << 29;  // of plans that a search looks at

struct Libraries {
  // The frontend opens the runtime by its bare name, which finds one that is already open.
  DynamicLibrary runtime{"cuDNN needs the CUDA runtime",
                         cuda_library_candidates({"libcudart.so.13"}),
                         "install it, or add its folder to LD_LIBRARY_PATH"};
  DynamicLibrary cudnn{"attention and convolutions on GPUs are done by cuDNN 9",
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

struct Cudnn::Data {
  cudnnHandle_t handle = nullptr;
  size_t version = 0;
  bool builds_all = false;
  std::map<std::string, std::shared_ptr<CudnnPlan>> plans;  // by sizes and strides
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

std::shared_ptr<CudnnPlan> Cudnn::plan(const std::string& signature,
                                       const Describe& describe) const {
  std::shared_ptr<CudnnPlan>& plan = data_->plans[signature];
  if (plan != nullptr) return plan;
  plan = std::make_shared<CudnnPlan>();
  plan->handle = data_->handle;
  describe(*plan);
  if (plan->refusal.empty()) plan->build(data_->builds_all && plan->is_searched);
  return plan;
}

void CudnnPlan::build(bool all) {
  const auto attempt = [this](fe::error_t error) {
    if (error.is_good()) return true;
    refusal = error.get_message();
    return false;
  };
  const auto policy = all ? fe::BuildPlanPolicy_t::ALL : fe::BuildPlanPolicy_t::HEURISTICS_CHOICE;
  if (!attempt(graph.validate()) || !attempt(graph.build_operation_graph(handle)) ||
      !attempt(graph.create_execution_plans(sources))) {
    return;
  }
  graph.deselect_numeric_notes(excluded);
  if (!attempt(graph.check_support(handle)) || !attempt(graph.build_plans(handle, policy)) ||
      !attempt(graph.get_workspace_size(workspace_bytes)) || !all) {
    return;
  }
  const int64_t most_bytes = std::max(workspace_bytes, kMostWorkspace);
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    int64_t num_bytes = 0;  // an error: this one was not built
    if (!graph.get_workspace_size_plan_at_index(i, num_bytes).is_good()) continue;
    if (num_bytes > most_bytes) continue;
    candidates.push_back(i);
    workspace_bytes = std::max(workspace_bytes, num_bytes);
  }
}

CudnnStep::CudnnStep(std::shared_ptr<CudnnPlan> plan, Pointers pointers)
    : plan_(std::move(plan)), pointers_(std::move(pointers)) {}

const std::string& CudnnStep::refusal() const {
  return plan_->refusal;
}

int64_t CudnnStep::workspace_bytes() const {
  return plan_->workspace_bytes;
}

void CudnnStep::set_pointer(int64_t number, CUdeviceptr address) {
  pointers_[number] = device::cuda::to_pointer(address);
}

// Once a plan: steps that share it share the choice.
void CudnnStep::search(const device::cuda::Stream& stream) const {
  constexpr int kRounds = 3;
  CudnnPlan& plan = *plan_;
  if (plan.candidates.size() < 2) return;
  const device::cuda::Event start(stream.context(), true), end(stream.context(), true);
  double best_ms = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    for (const int64_t i : plan.candidates) {
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
  plan.candidates.clear();
}

bool CudnnStep::launch(const device::cuda::Stream& stream, int64_t index) const {
  CudnnPlan& plan = *plan_;
  check_status(fe::detail::set_stream(plan.handle, reinterpret_cast<cudaStream_t>(stream.handle())),
               "cudnnSetStream");
  return plan.graph
      .execute_plan_at_index(plan.handle, pointers_, device::cuda::to_pointer(workspace_), index)
      .is_good();
}

void CudnnStep::run(const device::cuda::Stream& stream) const {
  CudnnPlan& plan = *plan_;
  if (plan.chosen) {
    check(launch(stream, *plan.chosen), "a plan of cuDNN that ran before does not");
    return;
  }
  check_status(fe::detail::set_stream(plan.handle, reinterpret_cast<cudaStream_t>(stream.handle())),
               "cudnnSetStream");
  fe::error_t error =
      plan.graph.execute(plan.handle, pointers_, device::cuda::to_pointer(workspace_));
  if (!error.is_good()) throw_user_error("cuDNN failed: {}", error.get_message());
}

}  // namespace monograph::runtime
