#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "launch/doctor/checks.h"

namespace monograph::launch {
namespace {

const char* name_of(Advice::Severity severity) {
  static constexpr const char* kNames[] = {"error", "warning", "note"};
  return kNames[static_cast<size_t>(severity)];
}

std::string size_of(int64_t bytes) {
  if (bytes < 0) return "no limit";
  if (bytes >= int64_t{1} << 30) {
    return fmt::format("{:.1f} GB", static_cast<double>(bytes) / (int64_t{1} << 30));
  }
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / (1 << 20));
}

void row(std::string& out, std::string_view name, const std::string& text) {
  out += fmt::format("{:<12}{}\n", name, text);
}

void network_rows(std::string& out, const Machine& machine) {
  for (const NetworkInterface& i : machine.interfaces) {
    const std::string speed = i.speed_mbps > 0 ? fmt::format(", {} Mb/s", i.speed_mbps) : "";
    row(out, "network",
        fmt::format(
            "{} {}{}, mtu {}, {}", i.name, i.is_up ? "up" : "down", speed, i.mtu,
            i.addresses.empty() ? "no address" : fmt::format("{}", fmt::join(i.addresses, " "))));
  }
  for (const InfinibandPort& port : machine.infiniband) {
    std::vector<std::string> gids;
    for (const auto& [index, type] : port.gid_types) {
      gids.push_back(fmt::format("{} {}", index, type));
    }
    row(out, "infiniband",
        fmt::format("{} port {}: {}, {}, {}; GIDs: {}", port.device, port.port, port.state,
                    port.link_layer, port.rate, fmt::join(gids, ", ")));
  }
  if (machine.infiniband.empty()) row(out, "infiniband", "no device");
}

}  // namespace

std::string advice_text(const Machine& machine, const std::vector<Advice>& advice) {
  std::string out;
  row(out, "host", machine.host_name);
  row(out, "cores",
      machine.cpu_quota > 0
          ? fmt::format("{} (the container may use {:.1f})", machine.num_cores, machine.cpu_quota)
          : fmt::format("{}", machine.num_cores));
  row(out, "memory",
      fmt::format("{}, {} free, limit of the container: {}", size_of(machine.memory_bytes),
                  size_of(machine.memory_available_bytes), size_of(machine.memory_limit_bytes)));
  row(out, "/dev/shm", machine.shm_bytes < 0 ? "missing" : size_of(machine.shm_bytes));
  row(out, "limits",
      fmt::format(
          "{} open files, locked memory: {}",
          machine.max_open_files < 0 ? "any number of" : fmt::format("{}", machine.max_open_files),
          size_of(machine.max_locked_bytes)));
  network_rows(out, machine);
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    row(out, "gpu", fmt::format("{}: {}, driver {}", gpu, machine.gpus[gpu], machine.gpu_driver));
  }
  if (machine.gpus.empty()) row(out, "gpu", "no NVIDIA driver");
  for (const auto& [name, value] : machine.variables) row(out, "set", name + "=" + value);
  for (const Advice& a : advice) {
    out +=
        fmt::format("\n{}: {}\n  why  {}\n  do   {}\n", name_of(a.severity), a.what, a.why, a.set);
  }
  if (advice.empty()) out += "\nnothing is wrong that this can see\n";
  return out;
}

std::string advice_json(const Machine& machine, const std::vector<Advice>& advice) {
  using nlohmann::json;
  json interfaces = json::array();
  for (const NetworkInterface& i : machine.interfaces) {
    interfaces.push_back({{"name", i.name},
                          {"up", i.is_up},
                          {"speed_mbps", i.speed_mbps},
                          {"mtu", i.mtu},
                          {"addresses", i.addresses}});
  }
  json ports = json::array();
  for (const InfinibandPort& port : machine.infiniband) {
    json gids = json::object();
    for (const auto& [index, type] : port.gid_types) gids[std::to_string(index)] = type;
    ports.push_back({{"device", port.device},
                     {"port", port.port},
                     {"state", port.state},
                     {"link_layer", port.link_layer},
                     {"rate", port.rate},
                     {"gid_types", gids}});
  }
  json findings = json::array();
  for (const Advice& a : advice) {
    findings.push_back({{"severity", name_of(a.severity)},
                        {"code", a.code},
                        {"what", a.what},
                        {"why", a.why},
                        {"set", a.set}});
  }
  const json report = {{"host", machine.host_name},
                       {"cores", machine.num_cores},
                       {"cpu_quota", machine.cpu_quota},
                       {"memory_bytes", machine.memory_bytes},
                       {"memory_available_bytes", machine.memory_available_bytes},
                       {"memory_limit_bytes", machine.memory_limit_bytes},
                       {"shm_bytes", machine.shm_bytes},
                       {"max_open_files", machine.max_open_files},
                       {"max_locked_bytes", machine.max_locked_bytes},
                       {"interfaces", interfaces},
                       {"infiniband", ports},
                       {"gpus", machine.gpus},
                       {"gpu_driver", machine.gpu_driver},
                       {"variables", machine.variables},
                       {"findings", findings}};
  return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace monograph::launch
