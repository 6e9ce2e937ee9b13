#include "frontend/import/safetensors.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace monograph::import {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kGolden = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/";

std::string temporary(const std::string& name) {
  // Tests run side by side.
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return ::testing::TempDir() + "/" + test + "." + name + ".safetensors";
}

std::string write_file(const std::string& bytes) {
  const std::string path = temporary("written");
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string read_file(const std::string& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::string file_of(const std::string& header, int64_t num_data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
         std::string(num_data_bytes, '\0');
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   int64_t begin, int64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype,
                     shape, begin, end);
}

std::string message_of(const std::string& bytes) {
  try {
    SafetensorsFile file(write_file(bytes));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string message_of_header(const std::string& tensors, int64_t num_data_bytes) {
  return message_of(file_of("{" + tensors + "}", num_data_bytes));
}

TEST(Safetensors, ReadsAFileThatThePythonPackageWrote) {
  const SafetensorsFile file(kGolden + "python.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "grüße"}}));
  EXPECT_THAT(file.tensors(), SizeIs(9));
  using ir::DType;
  const std::pair<const char*, DType> dtypes[] = {
      {"bf16", DType::kBF16}, {"f16", DType::kF16}, {"f32", DType::kF32}, {"f64", DType::kF64},
      {"i32", DType::kI32},   {"i64", DType::kI64}, {"u8", DType::kU8}};
  for (const auto& [name, dtype] : dtypes) {
    const StoredTensor* const stored = file.find(name);
    ASSERT_NE(stored, nullptr) << name;
    EXPECT_EQ(stored->type, (ir::TensorType{dtype, {2, 3}})) << name;
    const ir::Literal literal = read_tensor(*stored);
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(literal.get(i), static_cast<double>(i + 1)) << name;
  }
  EXPECT_EQ(file.find("scalar")->type, (ir::TensorType{DType::kF32, {}}));
  EXPECT_EQ(read_tensor(*file.find("scalar")).get(0), 2.5);
  EXPECT_EQ(file.find("empty")->type.shape, (ir::Shape{0, 4}));
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(Safetensors, WritesWhatItReads) {
  const SafetensorsFile file(kGolden + "python.safetensors");
  std::vector<TensorSource> sources;
  for (const StoredTensor& each : file.tensors()) {
    sources.push_back({each.name, each.type, [&each] { return read_tensor(each); }});
  }
  const std::string path = temporary("copy");
  write_safetensors(path, sources, file.metadata());
  const SafetensorsFile copy(path);
  EXPECT_EQ(copy.metadata(), file.metadata());
  ASSERT_EQ(copy.tensors().size(), file.tensors().size());
  for (const StoredTensor& each : file.tensors()) {
    ASSERT_NE(copy.find(each.name), nullptr);
    EXPECT_EQ(read_tensor(*copy.find(each.name)), read_tensor(each));
  }
  uint64_t length = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&length), sizeof(length));
  EXPECT_EQ(length % 8, 0u);
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
  const std::string path = temporary("kept");
  const ir::TensorType type{ir::DType::kF32, {2}};
  write_safetensors(path, {{"x", type, [&] { return ir::Literal::from_f32({2}, {1, 2}); }}});
  const std::string before = read_file(path);
  const auto fails = [&]() -> ir::Literal { throw_user_error("no value"); };
  EXPECT_THROW(write_safetensors(path, {{"x", type, fails}}), UserError);
  EXPECT_EQ(read_file(path), before);
  EXPECT_THROW(write_safetensors("/nowhere/x.safetensors", {}), UserError);
}

TEST(Safetensors, RefusesEveryCutOfAFile) {
  const std::string bytes = read_file(kGolden + "python.safetensors");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(SafetensorsFile(write_file(bytes.substr(0, size))), UserError) << size;
  }
  EXPECT_THAT(message_of(bytes.substr(0, 7)), HasSubstr("7 bytes are too few"));
  EXPECT_THAT(message_of(bytes.substr(0, 100)), HasSubstr("only 92 follow: the file was cut"));
  EXPECT_THAT(message_of(bytes.substr(0, bytes.size() - 1)), HasSubstr("the file was cut short"));
}

TEST(Safetensors, RefusesOtherFiles) {
  EXPECT_THAT(message_of("GGUFGGUF and more"), HasSubstr("it is no safetensors file"));
  EXPECT_THAT(message_of(file_of("{\"x\":", 0)), HasSubstr("its header is no JSON"));
  EXPECT_THAT(message_of(file_of("[1]", 0)), HasSubstr("its header is no JSON object"));
  EXPECT_THAT(message_of(file_of("{\"__metadata__\":{\"a\":1}}", 0)),
              HasSubstr("__metadata__ 'a' is no text"));
}

TEST(Safetensors, RefusesBadHeaders) {
  const auto x = [](int64_t begin, int64_t end) { return tensor("x", "F32", "[2]", begin, end); };
  const auto y = [](int64_t begin, int64_t end) { return tensor("y", "F32", "[2]", begin, end); };
  EXPECT_EQ(message_of_header(x(0, 8) + "," + y(8, 16), 16), "no error");
  EXPECT_THAT(message_of_header(x(0, 8) + "," + y(4, 12), 12),
              HasSubstr("the bytes of tensors 'x' and 'y' overlap"));
  EXPECT_THAT(message_of_header(x(0, 8) + "," + y(12, 20), 20),
              HasSubstr("4 bytes before tensor 'y' belong to no tensor"));
  EXPECT_THAT(message_of_header(x(0, 8), 12), HasSubstr("the last 4 bytes belong to no tensor"));
  EXPECT_THAT(message_of_header(x(0, 8), 4),
              HasSubstr("tensor 'x' ends at byte 8 of the data, which has 4"));
  EXPECT_THAT(message_of_header(x(0, 8) + "," + x(8, 16), 16),
              HasSubstr("tensor 'x' stands twice"));
  EXPECT_THAT(message_of_header(x(0, 4), 4), HasSubstr("is f32[2], 8 bytes, but its data_offsets"));
  EXPECT_THAT(message_of_header(x(8, 0), 8), HasSubstr("data_offsets are not [begin, end]"));
  EXPECT_THAT(message_of_header(tensor("x", "F8_E4M3", "[8]", 0, 8), 8),
              HasSubstr("tensor 'x' is of dtype F8_E4M3: known are BOOL, U8, U16"));
  EXPECT_THAT(message_of_header(tensor("x", "F32", "[-1,2]", 0, 8), 8),
              HasSubstr("its shape is no list of sizes"));
  EXPECT_THAT(message_of_header(tensor("x", "F32", "[4294967296,4294967296]", 0, 8), 8),
              HasSubstr("its shape is no list of sizes"));
  EXPECT_THAT(message_of_header(R"("x":{"dtype":"F32","shape":[2]})", 8),
              HasSubstr("tensor 'x' has no 'data_offsets'"));
}

}  // namespace
}  // namespace monograph::import
