#include "launch/doctor/machine.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/dynamic_library.h"
#include "base/error.h"

extern char** environ;

namespace monograph::launch {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  return line;
}

int64_t number_in(const fs::path& path, int64_t otherwise) {
  const std::string text = first_line(path);
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' ? otherwise : value;
}

// Sorted; none where the folder is not there or may not be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void read_cores(const fs::path& root, Machine* machine) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool is_known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  machine->num_cores =
      is_known ? CPU_COUNT(&cores) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::istringstream quota(
      first_line(root / "sys/fs/cgroup/cpu.max"));  // "200000 100000", "max .."
  double time = 0;
  double period = 0;
  if (quota >> time >> period && period > 0) machine->cpu_quota = time / period;
}

void read_memory(const fs::path& root, Machine* machine) {
  std::ifstream file(root / "proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  for (std::string unit; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemTotal:") machine->memory_bytes = kilobytes * 1024;
    if (name == "MemAvailable:") machine->memory_available_bytes = kilobytes * 1024;
  }
  machine->memory_limit_bytes = number_in(root / "sys/fs/cgroup/memory.max", -1);
  struct statvfs shm = {};
  if (statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    machine->shm_bytes = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
  }
}

int64_t limit_of(__rlimit_resource resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(limit.rlim_cur);
}

std::string text_of(const sockaddr* address) {
  const bool is_v4 = address->sa_family == AF_INET;
  if (!is_v4 && address->sa_family != AF_INET6) return {};
  char text[NI_MAXHOST] = "";
  const socklen_t length = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

void read_interfaces(const fs::path& root, Machine* machine) {
  std::map<std::string, std::vector<std::string>> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr) continue;
      const std::string text = text_of(entry->ifa_addr);
      if (!text.empty()) addresses[entry->ifa_name].push_back(text);
    }
    freeifaddrs(list);
  }
  for (const fs::path& path : entries_of(root / "sys/class/net")) {
    const std::string name = path.filename();
    if (!fs::exists(path / "operstate")) continue;  // bonding_masters is a file
    const std::string state = first_line(path / "operstate");
    machine->interfaces.push_back({name, state == "up" || name == "lo",
                                   number_in(path / "speed", -1), number_in(path / "mtu", 0),
                                   addresses[name]});
  }
}

// GIDs in use: an unused one is all zeros.
std::map<int, std::string> gid_types_of(const fs::path& port) {
  std::map<int, std::string> types;
  for (const fs::path& path : entries_of(port / "gids")) {
    const std::string gid = first_line(path);
    if (gid.find_first_not_of("0:") == std::string::npos) continue;
    const std::string index = path.filename();
    types[std::atoi(index.c_str())] = first_line(port / "gid_attrs/types" / index);
  }
  return types;
}

void read_infiniband(const fs::path& root, Machine* machine) {
  for (const fs::path& device : entries_of(root / "sys/class/infiniband")) {
    for (const fs::path& port : entries_of(device / "ports")) {
      std::string state = first_line(port / "state");  // "4: ACTIVE"
      state = state.substr(std::min(state.size(), state.find(": ") + 2));
      machine->infiniband.push_back({device.filename(), std::atoi(port.filename().c_str()), state,
                                     first_line(port / "link_layer"), first_line(port / "rate"),
                                     gid_types_of(port)});
    }
  }
  machine->has_peer_memory_module = fs::exists(root / "sys/module/nvidia_peermem");
}

void read_gpus(const fs::path& root, Machine* machine) {
  for (const fs::path& gpu : entries_of(root / "proc/driver/nvidia/gpus")) {
    std::ifstream file(gpu / "information");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("Model:")) continue;
      machine->gpus.push_back(line.substr(std::min(line.size(), line.find_first_not_of(" \t", 6))));
    }
  }
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed ..."
  std::istringstream words(first_line(root / "proc/driver/nvidia/version"));
  for (std::string word; machine->gpu_driver.empty() && words >> word;) {
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version) machine->gpu_driver = word;
  }
  machine->has_gpu_device_files = fs::exists(root / "dev/nvidia0");
  try {
    const DynamicLibrary driver("", {"libcuda.so.1"}, "");
    machine->is_cuda_driver_loadable = true;
  } catch (const UserError&) {
  }
}

void read_name(Machine* machine) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  machine->host_name = name;
  addrinfo* found = nullptr;
  machine->is_name_resolved = getaddrinfo(name, nullptr, nullptr, &found) == 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const std::string text = text_of(a->ai_addr);
    machine->is_name_loopback |= text.starts_with("127.") || text == "::1";
  }
  if (found != nullptr) freeaddrinfo(found);
}

bool is_looked_at(std::string_view name) {
  for (std::string_view prefix : {"NCCL_", "TORCH_NCCL_", "GLOO_", "MONOGRAPH_", "OMP_"}) {
    if (name.starts_with(prefix)) return name != "MONOGRAPH_JOB_TOKEN";  // a secret
  }
  for (std::string_view known :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "SLURM_NTASKS", "SLURM_NNODES"}) {
    if (name == known) return true;
  }
  return false;
}

}  // namespace

Machine examine_machine(const std::string& root) {
  Machine machine;
  read_name(&machine);
  read_cores(root, &machine);
  read_memory(root, &machine);
  machine.max_open_files = limit_of(RLIMIT_NOFILE);
  machine.max_locked_bytes = limit_of(RLIMIT_MEMLOCK);
  read_interfaces(root, &machine);
  read_infiniband(root, &machine);
  read_gpus(root, &machine);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (equals != std::string_view::npos && is_looked_at(name)) {
      machine.variables[name] = text.substr(equals + 1);
    }
  }
  return machine;
}

}  // namespace monograph::launch
