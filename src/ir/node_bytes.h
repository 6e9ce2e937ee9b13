#pragma once

#include <cstring>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace monograph::ir {

// What nodes are hashed and compared by: numbers, texts, types and attributes, one after the other.
// Each text and list says how long it is, so that different sequences give different bytes. Reals
// go in by their bits: NaN equals itself, 0.0 is not -0.0.
class NodeBytes {
 public:
  void clear() { size_ = 0; }  // keeps its memory
  std::string_view view() const { return {bytes_.data(), size_}; }

  void add(int64_t number) { std::memcpy(grow(sizeof number), &number, sizeof number); }
  void add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    std::memcpy(grow(text.size()), text.data(), text.size());
  }
  void add(const std::vector<int64_t>& list);
  void add(const TensorType& type);
  void add(const Attributes& attributes);

 private:
  char* grow(size_t num_bytes) {
    if (size_ + num_bytes > bytes_.size()) bytes_.resize(2 * (size_ + num_bytes) + 256);
    char* const at = bytes_.data() + size_;
    size_ += num_bytes;
    return at;
  }

  void add_value(const Attribute& attribute);

  std::vector<char> bytes_;
  size_t size_ = 0;
};

}  // namespace monograph::ir
