#include "diagnose/timeline/nsight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "diagnose/timeline/copies.h"
#include "diagnose/timeline/overlap.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

// As nsys 2024 exports it: kernel names by id, NVTX ranges, launches tied by correlation. Kernels
// of 100 us on stream 7 and an all-reduce of 150 us on stream 20 that begins with the second
// kernel.
constexpr const char* kSchema = R"(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
  copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
  textId INTEGER, domainId INTEGER);
INSERT INTO StringIds VALUES (1,'void gemm<float>(float*)'),(2,'gemm'),
  (3,'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),(4,'ncclDevKernel'),(5,'step 2');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1,'CUDA_MEMCPY_KIND_HTOD','Host-to-Device');
INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0,'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE','Pageable'),
  (2,'CUDA_MEMOPR_MEMORY_KIND_DEVICE','Device');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (1000000,1100000,0,1,7,11,PID,1,2,1), (1110000,1210000,0,1,7,12,PID,1,2,1), (1110000,1260000,0,1,20,13,PID,3,4,1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1300000,1400000,0,1,7,14,PID,1000000,1,0,2);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900000,910000,PID+1,11,9),(920000,930000,PID+1,12,9),
  (940000,950000,PID+1,13,9),(1290000,1295000,PID+1,14,9);
INSERT INTO NVTX_EVENTS VALUES (890000,1280000,59,'step 1',PID+1,NULL,0),(1285000,1500000,59,NULL,PID+1,5,0),
  (1285000,NULL,34,'mark',PID+1,NULL,0);
)";

class Nsight : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(testing::TempDir()) / ("nsight_" + std::to_string(getpid()) + ".sqlite");
    fs::remove(path_);
  }
  void TearDown() override { fs::remove(path_); }

  void write(std::string sql) {
    for (size_t at; (at = sql.find("PID")) != std::string::npos;)
      sql.replace(at, 3, std::to_string(int64_t{4242} << 24));
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message;
    sqlite3_close(database);
  }

  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }

  fs::path path_;
};

TEST_F(Nsight, ReadsKernelsCopiesLaunchesAndSteps) {
  write(kSchema);
  std::vector<Timeline> timelines = read_nsight_file(path_);
  ASSERT_EQ(timelines.size(), 1u);
  const Timeline& timeline = timelines[0];
  Overlap overlap = total_overlap(timeline);
  EXPECT_EQ(overlap.computation_ns, 200'000);
  EXPECT_EQ(overlap.communication_ns, 150'000);
  EXPECT_EQ(overlap.both_ns, 100'000);
  EXPECT_EQ(overlap.exposed_ns(), 50'000);
  EXPECT_DOUBLE_EQ(overlap.over_larger(), 50.0);
  Idle idle = device_idle(timeline);
  EXPECT_EQ(idle.kernel_wait_ns, 10'000);
  EXPECT_EQ(idle.host_wait_ns, 40'000);  // the copy was launched after the all-reduce ended
  ASSERT_EQ(timeline.steps.size(), 2u);
  EXPECT_EQ(timeline.steps[1].name, "step 2");
  EXPECT_EQ(step_overlaps(timeline)[0].communication_ns, 150'000);
  EXPECT_EQ(timeline.collectives[0].op, "all_reduce");
  std::vector<CopyKind> copies = copy_kinds(timeline);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].name, "Memcpy Host-to-Device (Pageable -> Device)");
  EXPECT_TRUE(copies[0].is_pageable);
  EXPECT_EQ(copies[0].num_bytes, 1'000'000);
  // The same from memory.
  EXPECT_EQ(read_nsight_bytes(bytes(), "x").front().spans.size(), timeline.spans.size());
}

TEST_F(Nsight, ProcessesAndDevicesAreTimelinesOfTheirOwn) {
  write(std::string(kSchema) +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000000,1100000,1,1,7,11,PID*2,1,2,1);");
  std::vector<Timeline> timelines = read_nsight_file(path_);
  ASSERT_EQ(timelines.size(), 2u);
  EXPECT_EQ(timelines[0].rank, 0);
  EXPECT_EQ(timelines[1].rank, 1);
}

TEST_F(Nsight, OldSchemaWithoutOptionalTablesIsRead) {
  write(
      "CREATE TABLE StringIds (id INT, value TEXT); INSERT INTO StringIds VALUES (1,'gemm');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, "
      "correlationId INT, shortName INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10,20,0,7,1,1),(0,0,0,7,1,1);");
  std::vector<Timeline> timelines = read_nsight_file(path_);
  ASSERT_EQ(timelines.size(), 1u);
  EXPECT_EQ(timelines[0].names[timelines[0].spans[0].name], "gemm");
  EXPECT_EQ(timelines[0].num_skipped, 1);  // the kernel that CUPTI could not measure
}

TEST_F(Nsight, OtherDatabasesAndViewsAreRefused) {
  write(
      "CREATE TABLE a (b); CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS end;");
  EXPECT_THAT([&] { read_nsight_file(path_); },
              ThrowsMessage<UserError>(HasSubstr("no CUDA activity")));
}

TEST_F(Nsight, DamageIsAnErrorNeverACrash) {
  write(kSchema);
  std::string whole = bytes();
  for (size_t cut = 16; cut < whole.size(); cut += 611) {
    try {
      read_nsight_bytes(whole.substr(0, cut), "cut");
    } catch (const UserError&) {
    }
  }
  for (size_t at = 100; at < whole.size(); at += 97) {
    std::string garbled = whole;
    garbled[at] = static_cast<char>(garbled[at] ^ 0x5a);
    try {
      read_nsight_bytes(garbled, "garbled");
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace monograph::diagnose
