#include "runtime/cuda/bound_steps.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/program/attention_workspace.h"
#include "runtime/cuda/cudnn_attention.h"

namespace monograph::runtime {

using device::cuda::Stream;

BoundSteps::BoundSteps(const ir::Program& program, const std::vector<ir::KernelImage>& kernels,
                       const device::cuda::ContextPtr& context, const Locate& locate,
                       const Options& options)
    : program_(program), context_(context), locate_(locate), options_(options), builtin_(context) {
  load(program, kernels);
  allocate_flags(program);
  for (const ir::Step& step : program.steps) {
    steps_.push_back(
        std::visit([&](const auto& work) { return bind(work, step.name); }, step.work));
  }
  share_workspace();
}

// Of the steps that have none in the plan; steps of one stream follow each other, so the largest
// serves all.
void BoundSteps::share_workspace() {
  int64_t num_bytes = 0;
  for (const auto& each : attentions_) {
    if (each->workspace() == 0) num_bytes = std::max(num_bytes, each->workspace_bytes());
  }
  for (const auto& each : convs_) num_bytes = std::max(num_bytes, each->workspace_bytes());
  workspace_ = {context_, num_bytes};
  for (const auto& each : attentions_) {
    if (each->workspace() == 0) each->set_workspace(workspace_.address());
  }
  for (const auto& each : convs_) each->set_workspace(workspace_.address());
}

BoundSteps::~BoundSteps() = default;

void BoundSteps::load(const ir::Program& program, const std::vector<ir::KernelImage>& kernels) {
  check(kernels.size() == program.kernels.size(), "{} kernels for a program of {}", kernels.size(),
        program.kernels.size());
  for (const ir::KernelImage& image : kernels) {
    std::unique_ptr<device::cuda::Module>& module = modules_[image.cubin.get()];
    if (!module) module = std::make_unique<device::cuda::Module>(context_, *image.cubin);
    std::vector<LoadedLaunch>& launches = kernels_.emplace_back();
    for (const ir::KernelLaunch& launch : image.launches) {
      LoadedLaunch& loaded = launches.emplace_back();
      loaded.function = module->function(launch.entry, launch.shared_bytes);
      std::copy_n(launch.grid, 3, loaded.shape.grid);
      std::copy_n(launch.block, 3, loaded.shape.block);
      loaded.shape.shared_bytes = launch.shared_bytes;
    }
  }
}

void BoundSteps::allocate_flags(const ir::Program& program) {
  const auto num_sorts = std::count_if(
      program.steps.begin(), program.steps.end(),
      [](const ir::Step& step) { return std::holds_alternative<ir::SortIdsStep>(step.work); });
  if (num_sorts == 0) return;
  flags_ = {context_, num_sorts * static_cast<int64_t>(sizeof(int64_t))};
  const std::vector<int64_t> none(num_sorts, -1);
  const Stream stream(context_);
  stream.copy_to_device(flags_.address(), none.data(), flags_.num_bytes());
  stream.synchronize();
}

BoundSteps::Launch BoundSteps::bind(const ir::KernelStep& step, const std::string& name) {
  check(step.kernel >= 0 && step.kernel < static_cast<int>(kernels_.size()),
        "'{}' launches kernel {} of {}", name, step.kernel, kernels_.size());
  check(step.arguments.size() == program_.kernels[step.kernel].buffers.size(),
        "kernel {} is launched with {} arguments, it has {} buffers", step.kernel,
        step.arguments.size(), program_.kernels[step.kernel].buffers.size());
  std::vector<CUdeviceptr> addresses;
  for (const ir::Address& argument : step.arguments) addresses.push_back(locate_(argument));
  check(static_cast<int>(step.scalars.size()) == program_.kernels[step.kernel].num_scalars(),
        "kernel {} is launched with {} scalars, it takes {}", step.kernel, step.scalars.size(),
        program_.kernels[step.kernel].num_scalars());
  const int kernel = step.kernel;
  return [this, kernel, addresses = std::move(addresses),
          scalars = step.scalars](const Stream& stream) {
    std::vector<void*> arguments;
    for (const CUdeviceptr& address : addresses) {
      arguments.push_back(const_cast<CUdeviceptr*>(&address));
    }
    for (const int64_t& scalar : scalars) arguments.push_back(const_cast<int64_t*>(&scalar));
    arguments.push_back(nullptr);  // ends the list for a driver that does not know the kernel
    for (const LoadedLaunch& launch : kernels_[kernel]) {
      device::cuda::launch(stream, launch.function, launch.shape, arguments.data());
    }
  };
}

BoundSteps::Launch BoundSteps::bind(const ir::GemmStep& step, const std::string&) {
  if (!gemm_shared_) gemm_shared_ = std::make_unique<CudaGemmShared>(context_, builtin_);
  const GemmAddresses at{locate_(step.a), locate_(step.b), locate_(step.c),
                         step.has_bias ? locate_(step.bias) : 0};
  gemms_.push_back(std::make_shared<CudaGemm>(step, at, *gemm_shared_, options_.allows_tf32));
  return [gemm = gemms_.back()](const Stream& stream) { gemm->run(stream); };
}

BoundSteps::Launch BoundSteps::bind(const ir::SortIdsStep& step, const std::string&) {
  const CUdeviceptr flag = flags_.address() + sorts_.size() * sizeof(int64_t);
  sorts_.push_back(step);
  const auto sort = std::make_shared<CudaSortIds>(step, locate_(step.ids), locate_(step.order),
                                                  locate_(step.offsets), flag, builtin_, context_);
  return [sort](const Stream& stream) { sort->run(stream); };
}

BoundSteps::Launch BoundSteps::bind(const ir::TopKStep&, const std::string& name) {
  throw_user_error("'{}' on a GPU: top_k runs on backend cpu only", name);
}

BoundSteps::Launch BoundSteps::bind(const ir::AttentionStep& step, const std::string& name) {
  if (step.dtype == ir::DType::kBF16) {
    const std::shared_ptr<CudnnStep> attention = make_cudnn_attention(step, locate_, cudnn());
    if (attention->refusal().empty()) {
      if (step.is_backward && attention->workspace_bytes() <= ir::gpu_workspace_bytes(step)) {
        attention->set_workspace(locate_(step.workspace));
      }
      attentions_.push_back(attention);
      return [attention](const Stream& stream) { attention->run(stream); };
    }
    remarks_.push_back(fmt::format("{}: our own kernels, since cuDNN {} has no plan for it: {}",
                                   name, cudnn().version(), attention->refusal()));
  }
  return [attention = CudaAttention(step, locate_, builtin_)](const Stream& stream) {
    attention.run(stream);
  };
}

const Cudnn& BoundSteps::cudnn() {
  if (!cudnn_) cudnn_ = std::make_unique<Cudnn>(context_, options_.num_candidates > 1);
  return *cudnn_;
}

BoundSteps::Launch BoundSteps::bind(const ir::ConvStep& step, const std::string& name) {
  if (is_product(step)) return bind(product_of(step), name);
  const auto conv =
      std::make_shared<CudaConv>(step, locate_, builtin_, cudnn(), options_.allows_tf32);
  if (!conv->refusal().empty()) {
    remarks_.push_back(fmt::format("{}: our own kernels, since cuDNN {} has no plan for it: {}",
                                   name, cudnn().version(), conv->refusal()));
  }
  convs_.push_back(conv);
  return [conv](const Stream& stream) { conv->run(stream); };
}

BoundSteps::Launch BoundSteps::bind(const ir::MaxPoolStep& step, const std::string&) {
  return [pool = CudaMaxPool(step, locate_, builtin_)](const Stream& stream) { pool.run(stream); };
}

BoundSteps::Launch BoundSteps::bind(const ir::CollectiveStep&, const std::string&) {
  return [collectives = options_.collectives, step = steps_.size()](const Stream& compute) {
    collectives->start(step, compute);
  };
}

BoundSteps::Launch BoundSteps::bind(const ir::WaitStep&, const std::string& name) {
  const std::vector<int>& waits = program_.steps[steps_.size()].waits;
  check(waits.size() == 1 && waits[0] < static_cast<int>(steps_.size()),
        "'{}' waits for no step before it", name);
  return [collectives = options_.collectives, step = waits[0]](const Stream& compute) {
    collectives->wait(step, compute);
  };
}

void BoundSteps::search(const Stream& stream, int num_candidates) {
  for (const auto& conv : convs_) conv->search(stream);
  std::map<std::string, const CudaGemm*> found;
  for (const auto& gemm : gemms_) {
    const CudaGemm*& best = found[gemm->signature()];
    if (best != nullptr) {
      gemm->use_algorithm_of(*best);
      continue;
    }
    gemm->search(stream, num_candidates);
    best = gemm.get();
  }
}

void BoundSteps::check_flags(const std::vector<int64_t>& flags) const {
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == -1) continue;
    throw_user_error("the id at position {} is out of range: use 0..{}", flags[i],
                     sorts_[i].num_ids - 1);
  }
}

}  // namespace monograph::runtime
