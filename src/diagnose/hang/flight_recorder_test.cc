#include "diagnose/hang/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "diagnose/hang/hang.h"
#include "diagnose/hang/pickle.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kData =
    fs::path(MONOGRAPH_SOURCE_DIR) / ".." / "shared" / "data" / "flight_recorder";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Progress read_folder(const fs::path& folder) {
  Progress whole;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("_dump_")) continue;
    merge_progress(whole, read_flight_recorder(read_file(entry.path()), entry.path().string()));
  }
  return whole;
}

class RealDumps : public testing::TestWithParam<const char*> {};

TEST_P(RealDumps, CulpritsMatchTheInjectedFault) {
  fs::path first = kData / "nvrx_gpu_error_1st" / GetParam();
  fs::path second = kData / "nvrx_lock_gil_1st" / GetParam();
  if (!fs::exists(first)) GTEST_SKIP() << "missing " << first;
  Hang gpu_error = find_hang(read_folder(first));
  EXPECT_EQ(gpu_error.kind, Hang::Kind::kMissing);
  EXPECT_THAT(gpu_error.culprits, AnyOf(ElementsAre(12), ElementsAre(12, 14)));
  Hang lock_gil = find_hang(read_folder(second));
  EXPECT_EQ(lock_gil.kind, Hang::Kind::kMissing);
  EXPECT_THAT(lock_gil.culprits, ElementsAre(9, 14));
}

INSTANTIATE_TEST_SUITE_P(BothFormats, RealDumps, testing::Values("", "json_derived"),
                         [](const auto& test) { return *test.param ? "Json" : "Pickle"; });

}  // namespace
}  // namespace monograph::diagnose
