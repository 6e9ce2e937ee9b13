#include "frontend/import/safetensors.h"

#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"

namespace monograph::import {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation has it

constexpr std::pair<std::string_view, ir::DType> kDTypes[] = {
    {"BOOL", ir::DType::kBool}, {"U8", ir::DType::kU8},   {"U16", ir::DType::kU16},
    {"I32", ir::DType::kI32},   {"I64", ir::DType::kI64}, {"BF16", ir::DType::kBF16},
    {"F16", ir::DType::kF16},   {"F32", ir::DType::kF32}, {"F64", ir::DType::kF64}};

std::optional<ir::DType> dtype_named(std::string_view name) {
  for (const auto& [known, dtype] : kDTypes) {
    if (known == name) return dtype;
  }
  return {};
}

std::string dtype_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, dtype] : kDTypes) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view name_of(ir::DType dtype) {
  for (const auto& [name, known] : kDTypes) {
    if (known == dtype) return name;
  }
  throw_internal_error("dtype {} has no safetensors name", ir::dtype_name(dtype));
}

template <typename... Args>
[[noreturn]] void fail(const std::string& path, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw_user_error("weights '{}': {}", path, fmt::format(format, std::forward<Args>(args)...));
}

// The number of elements; none where a dim is no number from 0 or the product is too large.
std::optional<ir::Shape> shape_of(const simdjson::dom::element& json) {
  simdjson::dom::array array;
  if (json.get(array) != simdjson::SUCCESS) return {};
  std::vector<int64_t> dims;
  int64_t num_elements = 1;
  for (const simdjson::dom::element& dim : array) {
    int64_t size = 0;
    if (dim.get(size) != simdjson::SUCCESS || size < 0) return {};
    if (__builtin_mul_overflow(num_elements, size, &num_elements)) return {};
    dims.push_back(size);
  }
  // Bytes must not overflow either.
  if (num_elements > INT64_MAX / 8) return {};
  return ir::Shape(std::move(dims));
}

struct Range {
  uint64_t begin = 0, end = 0;
};

std::optional<Range> range_of(const simdjson::dom::element& json) {
  simdjson::dom::array array;
  Range range;
  const bool is_pair = json.get(array) == simdjson::SUCCESS && array.size() == 2 &&
                       array.at(0).get(range.begin) == simdjson::SUCCESS &&
                       array.at(1).get(range.end) == simdjson::SUCCESS;
  if (!is_pair || range.begin > range.end) return {};
  return range;
}

Metadata metadata_of(const std::string& path, const simdjson::dom::element& json) {
  simdjson::dom::object object;
  Metadata metadata;
  if (json.get(object) != simdjson::SUCCESS) fail(path, "__metadata__ is no JSON object");
  for (const auto& [key, value] : object) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) fail(path, "__metadata__ '{}' is no text", key);
    metadata.emplace(key, text);
  }
  return metadata;
}

StoredTensor tensor_of(const std::string& path, std::string_view name,
                       const simdjson::dom::element& json, std::span<const std::byte> data) {
  const auto member = [&](std::string_view key) {
    simdjson::dom::element value;
    if (json[key].get(value) == simdjson::SUCCESS) return value;
    fail(path, "tensor '{}' has no '{}' in the header", name, key);
  };
  std::string_view dtype_text;
  if (member("dtype").get(dtype_text) != simdjson::SUCCESS) {
    fail(path, "tensor '{}': its dtype is no text", name);
  }
  const auto dtype = dtype_named(dtype_text);
  if (!dtype) {
    fail(path, "tensor '{}' is of dtype {}: known are {}", name, dtype_text, dtype_names());
  }
  const auto shape = shape_of(member("shape"));
  if (!shape) fail(path, "tensor '{}': its shape is no list of sizes from 0 that fit", name);
  const auto range = range_of(member("data_offsets"));
  if (!range) fail(path, "tensor '{}': its data_offsets are not [begin, end]", name);
  if (range->end > data.size()) {
    fail(path,
         "tensor '{}' ends at byte {} of the data, which has {}: the file was cut short, or its "
         "header is wrong",
         name, range->end, data.size());
  }
  StoredTensor tensor{std::string(name), {*dtype, *shape}, {}};
  if (static_cast<uint64_t>(tensor.type.num_bytes()) != range->end - range->begin) {
    fail(path, "tensor '{}' is {}, {} bytes, but its data_offsets [{}, {}] hold {}", name,
         tensor.type.str(), tensor.type.num_bytes(), range->begin, range->end,
         range->end - range->begin);
  }
  tensor.bytes = data.subspan(range->begin, range->end - range->begin);
  return tensor;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_("weights", path) {
  const std::span<const std::byte> bytes = file_.bytes();
  uint64_t length = 0;
  if (bytes.size() < kLengthBytes) {
    fail(path, "{} bytes are too few for a safetensors file", bytes.size());
  }
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    fail(path, "it begins with a header length of {}: it is no safetensors file", length);
  }
  if (length > bytes.size() - kLengthBytes) {
    fail(path, "its header has {} bytes, but only {} follow: the file was cut short", length,
         bytes.size() - kLengthBytes);
  }
  data_ = bytes.subspan(kLengthBytes + length);
  parse_header({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length});
  check_coverage();
}

void SafetensorsFile::parse_header(std::string_view header) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object object;
  const auto error = parser.parse(header.data(), header.size()).get(root);
  if (error != simdjson::SUCCESS) {
    fail(path(), "its header is no JSON ({}): it is no safetensors file, or damaged",
         simdjson::error_message(error));
  }
  if (root.get(object) != simdjson::SUCCESS) fail(path(), "its header is no JSON object");
  for (const auto& [name, json] : object) {
    if (name == "__metadata__") {
      metadata_ = metadata_of(path(), json);
    } else {
      tensors_.push_back(tensor_of(path(), name, json, data_));
    }
  }
}

void SafetensorsFile::check_coverage() {
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const StoredTensor& a, const StoredTensor& b) {
                     return std::pair(a.bytes.data(), a.bytes.size()) <
                            std::pair(b.bytes.data(), b.bytes.size());
                   });
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (by_name_.emplace(tensors_[i].name, i).second) continue;
    fail(path(), "tensor '{}' stands twice in the header", tensors_[i].name);
  }
  const std::byte* covered = data_.data();
  const StoredTensor* last = nullptr;
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.bytes.data() < covered) {
      fail(path(), "the bytes of tensors '{}' and '{}' overlap", last->name, tensor.name);
    }
    if (tensor.bytes.data() > covered) {
      fail(path(), "{} bytes before tensor '{}' belong to no tensor", tensor.bytes.data() - covered,
           tensor.name);
    }
    covered += tensor.bytes.size();
    last = &tensor;
  }
  const std::byte* const end = data_.data() + data_.size();
  if (covered != end) fail(path(), "the last {} bytes belong to no tensor", end - covered);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

ir::Literal read_tensor(const StoredTensor& tensor) {
  ir::Literal literal(tensor.type);
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), literal.data());
  return literal;
}

void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                       const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const TensorSource& tensor : tensors) {
    check(!header.contains(tensor.name), "tensor '{}' is written twice", tensor.name);
    const int64_t end = offset + tensor.type.num_bytes();
    header[tensor.name] = {{"dtype", name_of(tensor.type.dtype)},
                           {"shape", tensor.type.shape.dims()},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');  // aligns the data
  const uint64_t length = text.size();
  AtomicFile file("weights", path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const TensorSource& tensor : tensors) {
    const ir::Literal value = tensor.value();
    check(value.type() == tensor.type, "tensor '{}' is {}, announced as {}", tensor.name,
          value.type().str(), tensor.type.str());
    file.write({value.data(), static_cast<size_t>(value.type().num_bytes())});
  }
  file.commit();
}

}  // namespace monograph::import
