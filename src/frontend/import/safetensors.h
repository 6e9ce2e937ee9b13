#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "ir/literal.h"

// The safetensors format (github.com/huggingface/safetensors): 8 bytes, the length of the header;
// the header, a JSON object from tensor names to {"dtype", "shape", "data_offsets"}; the elements,
// without holes.
namespace monograph::import {

using Metadata = std::map<std::string, std::string>;

struct StoredTensor {
  std::string name;
  ir::TensorType type;
  std::span<const std::byte> bytes;  // of the mapped file
};

// A safetensors file, checked as a whole when it is opened; elements are read when they are used.
class SafetensorsFile {
 public:
  // UserError for a file that is cut short, is no safetensors file, or whose header has an unknown
  // dtype, a name twice, or offsets that overlap, leave holes, reach outside or do not fit a shape.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // by offset
  const StoredTensor* find(std::string_view name) const;                 // null: none
  const Metadata& metadata() const { return metadata_; }

 private:
  void parse_header(std::string_view header);
  void check_coverage();

  MappedFile file_;
  std::span<const std::byte> data_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
  Metadata metadata_;
};

ir::Literal read_tensor(const StoredTensor& tensor);

// A tensor to write; its value is made when its turn comes, so that only one is in memory.
struct TensorSource {
  std::string name;
  ir::TensorType type;
  std::function<ir::Literal()> value;
};

// Replaces the file as a whole or not at all. UserError when it cannot be written.
void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                       const Metadata& metadata = {});

}  // namespace monograph::import
