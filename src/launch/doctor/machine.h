#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace monograph::launch {

struct NetworkInterface {
  std::string name;
  bool is_up = false;
  int64_t speed_mbps = -1;  // -1: the driver does not say
  int64_t mtu = 0;
  std::vector<std::string> addresses;
};

struct InfinibandPort {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string state;                     // "ACTIVE"
  std::string link_layer;                // "InfiniBand", "Ethernet" (RoCE)
  std::string rate;                      // "400 Gb/sec (4X NDR)"
  std::map<int, std::string> gid_types;  // by index, of those in use: "RoCE v2", "IB/RoCE v1"
};

// What matters to a distributed job about the host that this runs on. -1: not known or no limit.
struct Machine {
  std::string host_name;
  bool is_name_resolved = false;
  bool is_name_loopback = false;  // resolves to 127.0.0.0/8 or ::1
  int num_cores = 0;              // that this process may run on
  double cpu_quota = -1;          // cores' worth of time that the container has
  int64_t memory_bytes = -1;
  int64_t memory_available_bytes = -1;
  int64_t memory_limit_bytes = -1;  // of the container
  int64_t shm_bytes = -1;           // /dev/shm
  int64_t max_open_files = -1;
  int64_t max_locked_bytes = -1;
  std::vector<NetworkInterface> interfaces;
  std::vector<InfinibandPort> infiniband;
  bool has_peer_memory_module = false;           // GPU memory for network cards
  std::vector<std::string> gpus;                 // models, as the NVIDIA kernel driver lists them
  std::string gpu_driver;                        // its version
  bool has_gpu_device_files = false;             // /dev/nvidia0
  bool is_cuda_driver_loadable = false;          // libcuda.so.1
  std::map<std::string, std::string> variables;  // NCCL_*, GLOO_*, RANK and what else is looked at
};

// root: "/" for this machine; elsewhere the folders proc, sys and dev are read below it.
Machine examine_machine(const std::string& root);

}  // namespace monograph::launch
