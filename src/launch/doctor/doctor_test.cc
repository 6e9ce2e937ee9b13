#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launch/doctor/checks.h"
#include "launch/doctor/machine.h"

namespace monograph::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Machine good_machine() {
  Machine machine;
  machine.host_name = "node7";
  machine.is_name_resolved = true;
  machine.num_cores = 64;
  machine.memory_bytes = machine.memory_available_bytes = int64_t{256} << 30;
  machine.shm_bytes = int64_t{8} << 30;
  machine.max_open_files = 65536;
  machine.interfaces = {{"lo", true, -1, 65536, {"127.0.0.1"}},
                        {"eth0", true, 100'000, 9000, {"10.0.0.7"}}};
  machine.infiniband = {{"mlx5_0",
                         1,
                         "ACTIVE",
                         "Ethernet",
                         "400 Gb/sec (4X NDR)",
                         {{0, "IB/RoCE v1"}, {1, "RoCE v2"}, {3, "RoCE v2"}}}};
  machine.has_peer_memory_module = true;
  machine.gpus = {"NVIDIA H200", "NVIDIA H200"};
  machine.gpu_driver = "570.124.06";
  machine.has_gpu_device_files = machine.is_cuda_driver_loadable = true;
  return machine;
}

std::vector<std::string> codes(const Machine& machine) {
  std::vector<std::string> found;
  for (const Advice& advice : check_machine(machine)) found.push_back(advice.code);
  return found;
}

TEST(DoctorTest, FindsNothingWrongWithAGoodMachine) {
  EXPECT_THAT(codes(good_machine()), IsEmpty());
  EXPECT_THAT(advice_text(good_machine(), {}), HasSubstr("nothing is wrong that this can see"));
}

TEST(DoctorTest, FindsSmallLimits) {
  Machine machine = good_machine();
  machine.shm_bytes = 64 << 20;
  machine.max_locked_bytes = 64 << 10;
  machine.max_open_files = 1024;
  machine.cpu_quota = 4;
  EXPECT_THAT(codes(machine), ElementsAre("locked_memory", "cpu_quota", "shm_small", "open_files"));
  EXPECT_THAT(check_machine(machine)[1].set, HasSubstr("OMP_NUM_THREADS=4"));
}

TEST(DoctorTest, FindsNamesThatAreNotThere) {
  Machine machine = good_machine();
  machine.variables = {{"NCCL_SOCKET_IFNAME", "ib"}, {"NCCL_IB_HCA", "mlx4_0:1"}};
  EXPECT_THAT(codes(machine), ElementsAre("interface_missing", "hca_missing"));
  EXPECT_THAT(check_machine(machine)[0].set, HasSubstr("lo, eth0"));
  machine.variables = {{"NCCL_SOCKET_IFNAME", "eth"}, {"NCCL_IB_HCA", "mlx5"}};
  EXPECT_THAT(codes(machine), IsEmpty());  // a prefix is enough
  machine.variables = {{"NCCL_SOCKET_IFNAME", "=eth"}};
  EXPECT_THAT(codes(machine), ElementsAre("interface_missing"));
  machine.variables = {{"NCCL_SOCKET_IFNAME", "^docker"}};
  EXPECT_THAT(codes(machine), IsEmpty());
}

TEST(DoctorTest, FindsTheWrongGid) {
  Machine machine = good_machine();
  machine.variables = {{"NCCL_IB_GID_INDEX", "0"}};
  ASSERT_THAT(codes(machine), ElementsAre("gid_index"));
  EXPECT_THAT(check_machine(machine)[0].what, HasSubstr("is IB/RoCE v1"));
  EXPECT_EQ(check_machine(machine)[0].set, "export NCCL_IB_GID_INDEX=3");
  machine.variables = {{"NCCL_IB_GID_INDEX", "3"}};
  EXPECT_THAT(codes(machine), IsEmpty());
}

TEST(DoctorTest, FindsContradictions) {
  Machine machine = good_machine();
  machine.variables = {{"NCCL_IB_DISABLE", "1"}, {"NCCL_IB_HCA", "mlx5_0"}};
  EXPECT_THAT(codes(machine), ElementsAre("contradiction", "ib_disabled"));
  machine.variables = {{"NCCL_P2P_DISABLE", "1"}, {"NCCL_P2P_LEVEL", "NVL"}};
  EXPECT_THAT(codes(machine), ElementsAre("contradiction"));
  machine.variables = {{"NCCL_P2P_DISABLE", "0"}, {"NCCL_P2P_LEVEL", "NVL"}};
  EXPECT_THAT(codes(machine), IsEmpty());
}

TEST(DoctorTest, FindsWhatAContainerLacks) {
  Machine machine = good_machine();
  machine.is_cuda_driver_loadable = false;
  EXPECT_THAT(codes(machine), ElementsAre("cuda_driver"));
  machine = good_machine();
  machine.has_gpu_device_files = false;
  EXPECT_THAT(codes(machine), ElementsAre("gpu_devices"));
  machine = good_machine();
  machine.variables = {{"CUDA_VISIBLE_DEVICES", "0,2"}, {"LOCAL_RANK", "2"}};
  EXPECT_THAT(codes(machine), ElementsAre("visible_devices", "too_many_ranks"));
  machine.variables = {{"LD_LIBRARY_PATH", "/opt/lib:/usr/local/cuda/lib64/stubs"}};
  EXPECT_THAT(codes(machine), ElementsAre("cuda_stubs"));
}

TEST(DoctorTest, WritesJson) {
  Machine machine = good_machine();
  machine.variables = {{"RANK", "4"}, {"WORLD_SIZE", "4"}};
  const auto report = nlohmann::json::parse(advice_json(machine, check_machine(machine)));
  EXPECT_EQ(report["findings"][0]["code"], "rank_range");
  EXPECT_EQ(report["infiniband"][0]["gid_types"]["3"], "RoCE v2");
  EXPECT_EQ(report["gpus"].size(), 2u);
}

// A machine's folders, written below a temporary one.
TEST(DoctorTest, ReadsTheKernelsFiles) {
  const std::filesystem::path root = testing::TempDir() + "doctor" + std::to_string(getpid());
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  };
  write("sys/fs/cgroup/cpu.max", "350000 100000");
  write("sys/fs/cgroup/memory.max", "max");
  write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    500 kB");
  write("sys/class/net/eth0/operstate", "up");
  write("sys/class/net/eth0/speed", "25000");
  write("sys/class/net/eth0/mtu", "9000");
  write("sys/class/net/bonding_masters", "");
  const std::string port = "sys/class/infiniband/mlx5_1/ports/1/";
  write(port + "state", "1: DOWN");
  write(port + "link_layer", "InfiniBand");
  write(port + "rate", "100 Gb/sec (4X EDR)");
  write(port + "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
  write(port + "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(port + "gid_attrs/types/0", "IB/RoCE v1");
  write("proc/driver/nvidia/gpus/0000:17:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 5");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26");
  const Machine machine = examine_machine(root.string());
  std::filesystem::remove_all(root);
  EXPECT_DOUBLE_EQ(machine.cpu_quota, 3.5);
  EXPECT_EQ(machine.memory_bytes, 1'024'000);
  EXPECT_EQ(machine.memory_available_bytes, 512'000);
  EXPECT_EQ(machine.memory_limit_bytes, -1);
  ASSERT_EQ(machine.interfaces.size(), 1u);
  EXPECT_EQ(machine.interfaces[0].speed_mbps, 25000);
  ASSERT_EQ(machine.infiniband.size(), 1u);
  EXPECT_EQ(machine.infiniband[0].state, "DOWN");
  EXPECT_EQ(machine.infiniband[0].gid_types.size(), 1u);
  EXPECT_THAT(machine.gpus, ElementsAre("NVIDIA H200"));
  EXPECT_EQ(machine.gpu_driver, "570.124.06");
  EXPECT_THAT(codes(machine), testing::Contains("port_down"));
}

}  // namespace
}  // namespace monograph::launch
