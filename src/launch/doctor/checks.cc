#include "launch/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace monograph::launch {
namespace {

using Severity = Advice::Severity;

constexpr int64_t kMega = int64_t{1} << 20;
constexpr int64_t kGiga = int64_t{1} << 30;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

class MachineChecks {
 public:
  explicit MachineChecks(const Machine& machine) : machine_(machine) {}

  std::vector<Advice> run() {
    check_cores();
    check_memory();
    check_limits();
    check_name();
    check_gpus();
    check_infiniband();
    check_interface_names("NCCL_SOCKET_IFNAME");
    check_interface_names("GLOO_SOCKET_IFNAME");
    check_hca_names();
    check_gid_index();
    check_contradictions();
    check_renamed();
    check_ranks();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Advice& a, const Advice& b) { return a.severity < b.severity; });
    return std::move(found_);
  }

 private:
  void add(Severity severity, std::string code, std::string what, std::string why,
           std::string set) {
    found_.push_back({severity, std::move(code), std::move(what), std::move(why), std::move(set)});
  }

  std::optional<std::string> variable(const std::string& name) const {
    const auto found = machine_.variables.find(name);
    if (found == machine_.variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  }

  std::optional<int64_t> number(const std::string& name) const {
    const auto text = variable(name);
    if (!text) return std::nullopt;
    char* end = nullptr;
    const int64_t value = std::strtoll(text->c_str(), &end, 10);
    return *end == '\0' ? std::optional(value) : std::nullopt;
  }

  bool is_on(const std::string& name) const { return number(name).value_or(0) != 0; }

  void check_cores() {
    if (machine_.cpu_quota > 0 && machine_.cpu_quota + 0.5 < machine_.num_cores) {
      const int whole = std::max(1, static_cast<int>(machine_.cpu_quota));
      add(Severity::kWarning, "cpu_quota",
          fmt::format("the container may use {:.1f} cores but sees {}", machine_.cpu_quota,
                      machine_.num_cores),
          "one thread a core that is seen makes more threads than run: the kernel halts all of "
          "them for part of each 100 ms",
          fmt::format("export OMP_NUM_THREADS={}   (divided by the ranks of the host)", whole));
    }
  }

  void check_memory() {
    if (machine_.shm_bytes >= 0 && machine_.shm_bytes < kGiga) {
      add(Severity::kWarning, "shm_small",
          fmt::format("/dev/shm has {} MB", machine_.shm_bytes / kMega),
          "NCCL inside a host and PyTorch's data loaders fail or die by SIGBUS when it is full "
          "(Monograph's own shared memory does not lie there)",
          "docker run --shm-size=8g ...   or: mount -o remount,size=8g /dev/shm");
    }
    const int64_t available = machine_.memory_available_bytes;
    if (available >= 0 && available < kGiga) {
      add(Severity::kWarning, "memory_low",
          fmt::format("{} MB of memory are free", available / kMega),
          "the kernel ends a rank by SIGKILL when none is left", "end what else runs here");
    }
  }

  void check_limits() {
    if (machine_.max_open_files >= 0 && machine_.max_open_files < 4096) {
      add(Severity::kWarning, "open_files",
          fmt::format("a process may open {} files", machine_.max_open_files),
          "each rank holds a connection to each other one", "ulimit -n 65536");
    }
    if (!machine_.infiniband.empty() && machine_.max_locked_bytes >= 0) {
      add(Severity::kError, "locked_memory",
          fmt::format("a process may lock {} MB of memory", machine_.max_locked_bytes / kMega),
          "InfiniBand and RoCE need their buffers locked: ibv_reg_mr fails, and NCCL with it",
          "ulimit -l unlimited   (docker run --ulimit memlock=-1, or /etc/security/limits.conf)");
    }
  }

  void check_name() {
    if (!machine_.is_name_resolved) {
      add(Severity::kWarning, "host_name",
          fmt::format("the host's name '{}' has no address", machine_.host_name),
          "what finds its own address by its name (Gloo in PyTorch, MPI) fails",
          fmt::format("echo \"10.0.0.1 {}\" >> /etc/hosts   (with this host's address), or export "
                      "GLOO_SOCKET_IFNAME=eth0",
                      machine_.host_name));
    } else if (machine_.is_name_loopback) {
      add(Severity::kNote, "host_name_loopback",
          fmt::format("the host's name '{}' is an address of this host alone (127.x or ::1)",
                      machine_.host_name),
          "ranks of other hosts that get it connect to themselves",
          "give --master-addr an address that the other hosts reach");
    }
  }

  void check_gpus() {
    const bool has_gpu = !machine_.gpus.empty() || machine_.has_gpu_device_files;
    if (has_gpu && !machine_.is_cuda_driver_loadable) {
      add(Severity::kError, "cuda_driver", "there are GPUs, but libcuda.so.1 cannot be loaded",
          "the container has the devices without the driver's libraries: no program can use them",
          "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...");
    }
    if (!machine_.gpus.empty() && !machine_.has_gpu_device_files) {
      add(Severity::kError, "gpu_devices",
          fmt::format("the driver lists {} GPUs, but there is no /dev/nvidia0",
                      machine_.gpus.size()),
          "the container was started without them", "docker run --gpus all ...");
    }
    const std::string path = variable("LD_LIBRARY_PATH").value_or("");
    for (const std::string& folder : split(path, ':')) {
      if (!folder.ends_with("/stubs") && !folder.ends_with("/stubs/")) continue;
      add(Severity::kError, "cuda_stubs", fmt::format("LD_LIBRARY_PATH has {}", folder),
          "its libcuda.so is for linking only: it is found before the driver's, and every call "
          "fails",
          "take it out of LD_LIBRARY_PATH");
    }
    const auto visible = variable("CUDA_VISIBLE_DEVICES");
    for (const std::string& word : split(visible.value_or(""), ',')) {
      const bool is_index = word.find_first_not_of("0123456789") == std::string::npos;
      if (!is_index || machine_.gpus.empty()) continue;
      if (static_cast<size_t>(std::atoi(word.c_str())) < machine_.gpus.size()) continue;
      add(Severity::kError, "visible_devices",
          fmt::format("CUDA_VISIBLE_DEVICES={} names GPU {} of {}", *visible, word,
                      machine_.gpus.size()),
          "CUDA shows none from the first wrong number on",
          fmt::format("numbers from 0 to {}", machine_.gpus.size() - 1));
    }
  }

  void check_infiniband() {
    for (const InfinibandPort& port : machine_.infiniband) {
      if (port.state == "ACTIVE") continue;
      add(Severity::kWarning, "port_down",
          fmt::format("{} port {} is {}", port.device, port.port, port.state),
          "NCCL does not use it: what its GPU sends goes by a farther card, at a part of the speed",
          fmt::format("check the cable and the subnet manager (ibstat {}), or leave it out: export "
                      "NCCL_IB_HCA=^{}",
                      port.device, port.device));
    }
    if (!machine_.infiniband.empty() && !machine_.gpus.empty() &&
        !machine_.has_peer_memory_module) {
      add(Severity::kNote, "peer_memory", "the module nvidia_peermem is not loaded",
          "unless the kernel offers DMA-BUF, data of GPUs goes through host memory",
          "modprobe nvidia_peermem");
    }
  }

  // NCCL's way to write a list: ^ excludes, = matches whole names, else prefixes.
  void check_interface_names(const std::string& name) {
    const auto value = variable(name);
    if (!value || value->starts_with("^")) return;
    const bool is_exact = value->starts_with("=") || name.starts_with("GLOO");
    const std::string list = value->starts_with("=") ? value->substr(1) : *value;
    std::vector<std::string> all;
    for (const NetworkInterface& i : machine_.interfaces) all.push_back(i.name);
    for (const std::string& wanted : split(list, ',')) {
      const bool is_there = std::any_of(all.begin(), all.end(), [&](const std::string& i) {
        return is_exact ? i == wanted : i.starts_with(wanted);
      });
      if (is_there) continue;
      add(Severity::kError, "interface_missing",
          fmt::format("{}={}: there is no interface '{}'", name, *value, wanted),
          "the ranks find no address to connect by, and end or hang at the start",
          fmt::format("export {}=...   with one of {}", name, fmt::join(all, ", ")));
    }
  }

  void check_hca_names() {
    const auto value = variable("NCCL_IB_HCA");
    if (!value || value->starts_with("^")) return;
    const bool is_exact = value->starts_with("=");
    std::vector<std::string> all;
    for (const InfinibandPort& port : machine_.infiniband) all.push_back(port.device);
    for (const std::string& wanted : split(is_exact ? value->substr(1) : *value, ',')) {
      const std::string device = wanted.substr(0, wanted.find(':'));
      const bool is_there = std::any_of(all.begin(), all.end(), [&](const std::string& d) {
        return is_exact ? d == device : d.starts_with(device);
      });
      if (is_there) continue;
      add(Severity::kError, "hca_missing",
          fmt::format("NCCL_IB_HCA={}: there is no device '{}'", *value, device),
          "NCCL falls back to TCP sockets, many times slower",
          all.empty() ? "unset NCCL_IB_HCA, or give the container /dev/infiniband"
                      : fmt::format("export NCCL_IB_HCA={}", fmt::join(all, ",")));
    }
  }

  void check_gid_index() {
    const auto index = number("NCCL_IB_GID_INDEX");
    if (!index || *index < 0) return;
    for (const InfinibandPort& port : machine_.infiniband) {
      if (port.link_layer != "Ethernet" || port.state != "ACTIVE") continue;
      const auto used = port.gid_types.find(static_cast<int>(*index));
      if (used != port.gid_types.end() && used->second == "RoCE v2") continue;
      int good = -1;
      for (const auto& [i, type] : port.gid_types) {
        if (type == "RoCE v2") good = i;  // the last is an IPv4 address's, where there is one
      }
      add(Severity::kError, "gid_index",
          fmt::format("NCCL_IB_GID_INDEX={}, but on {} that GID is {}", *index, port.device,
                      used == port.gid_types.end() ? "not in use" : used->second),
          "RoCE v1 is not routed, and an unused GID connects to nothing: timeouts with status 12",
          good < 0 ? "unset NCCL_IB_GID_INDEX (NCCL 2.21 and later find it)"
                   : fmt::format("export NCCL_IB_GID_INDEX={}", good));
    }
  }

  void contradiction(const std::string& first, const std::string& second, const std::string& why,
                     const std::string& set) {
    add(Severity::kWarning, "contradiction",
        fmt::format("{}={} and {}={} contradict each other", first, *variable(first), second,
                    *variable(second)),
        why, set);
  }

  void check_contradictions() {
    for (const char* name : {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_NET_GDR_LEVEL"}) {
      if (!is_on("NCCL_IB_DISABLE") || !variable(name)) continue;
      contradiction("NCCL_IB_DISABLE", name, "InfiniBand is off, so the second does nothing",
                    "unset NCCL_IB_DISABLE");
    }
    if (is_on("NCCL_P2P_DISABLE") && variable("NCCL_P2P_LEVEL")) {
      contradiction("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",
                    "NVLink and PCIe peer access are off, so the second does nothing",
                    "unset NCCL_P2P_DISABLE");
    }
    if (variable("NCCL_NET").value_or("") == "Socket" && variable("NCCL_IB_HCA")) {
      contradiction("NCCL_NET", "NCCL_IB_HCA", "sockets are asked for, so the second does nothing",
                    "unset NCCL_NET");
    }
    const auto least = number("NCCL_MIN_NCHANNELS");
    const auto most = number("NCCL_MAX_NCHANNELS");
    if (least && most && *least > *most) {
      contradiction("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "the least is above the most",
                    "unset NCCL_MIN_NCHANNELS");
    }
    if (is_on("NCCL_P2P_DISABLE") && is_on("NCCL_SHM_DISABLE") && machine_.gpus.size() > 1) {
      contradiction("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
                    "GPUs of this host then talk by the network alone",
                    "unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE");
    }
    if (is_on("NCCL_IB_DISABLE") && !machine_.infiniband.empty()) {
      add(Severity::kWarning, "ib_disabled",
          fmt::format("NCCL_IB_DISABLE=1, but there are {} InfiniBand or RoCE ports",
                      machine_.infiniband.size()),
          "all traffic goes by TCP sockets, many times slower", "unset NCCL_IB_DISABLE");
    }
  }

  void check_renamed() {
    for (const char* name : {"NCCL_BLOCKING_WAIT", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_DESYNC_DEBUG",
                             "NCCL_ENABLE_TIMING"}) {
      if (!variable(name) || variable(fmt::format("TORCH_{}", name))) continue;
      add(Severity::kNote, "renamed", fmt::format("{} is set", name),
          "PyTorch 2.2 and later read it by another name, and this one with a warning or not at "
          "all",
          fmt::format("export TORCH_{}={}", name, *variable(name)));
    }
  }

  void check_ranks() {
    const auto rank = number("RANK");
    const auto size = number("WORLD_SIZE");
    if (rank && size && (*rank < 0 || *rank >= *size)) {
      add(Severity::kError, "rank_range", fmt::format("RANK={} with WORLD_SIZE={}", *rank, *size),
          "ranks are 0 to WORLD_SIZE - 1", "start the ranks by 'monograph run'");
    }
    const auto local_rank = number("LOCAL_RANK");
    if (local_rank && !machine_.gpus.empty() &&
        *local_rank >= static_cast<int64_t>(machine_.gpus.size())) {
      add(Severity::kError, "too_many_ranks",
          fmt::format("LOCAL_RANK={} with {} GPUs", *local_rank, machine_.gpus.size()),
          "each rank takes the GPU of its LOCAL_RANK",
          fmt::format("monograph run --nproc-per-node {} ...", machine_.gpus.size()));
    }
  }

  const Machine& machine_;
  std::vector<Advice> found_;
};

}  // namespace

std::vector<Advice> check_machine(const Machine& machine) {
  return MachineChecks(machine).run();
}

}  // namespace monograph::launch
