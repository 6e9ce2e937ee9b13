#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/loop/loop.h"

namespace monograph::codegen {

// The C++ type a value has in generated code. 64-bit integers per element halve the vector width,
// so an element integer that is proven to fit is an int.
enum class CType : uint8_t { kFloat, kDouble, kInt, kLong, kBool };
std::string_view c_type_name(CType type);
std::string_view storage_type_name(ir::DType dtype);

class ValueTypes {
 public:
  explicit ValueTypes(const ir::Loop& loop);

  CType of(int id) const { return types_[id]; }
  // Every possible value is an int.
  bool fits_int(int id) const { return ranges_[id].fits_int(); }
  // The type in which the operands of an apply are combined; kInt also for a comparison of an int
  // with a row or scalar of any size, which is then clamped (see is_narrowed).
  CType operation_type(int id) const;
  // A clamped copy of this row or scalar value is compared with ints.
  bool is_narrowed(int id) const { return is_narrowed_[id]; }

 private:
  struct Range {
    int64_t low = INT64_MIN, high = INT64_MAX;
    bool fits_int() const { return low >= INT32_MIN && high <= INT32_MAX; }
  };
  Range range_of(const ir::Instruction& instruction) const;
  Range index_range(const ir::Access& access) const;
  Range apply_range(const ir::Instruction& instruction) const;
  CType type_of(const ir::Instruction& instruction, const Range& range) const;

  const ir::Loop& loop_;
  std::vector<Range> ranges_;
  std::vector<CType> types_;
  std::vector<bool> is_narrowed_;
};

// "1e-05f", "-__builtin_inff()", "5L".
std::string constant_text(double value, CType type);
// The register value of a stored element, and back.
std::string load_text(ir::DType dtype, const std::string& element);
std::string store_text(ir::DType dtype, const std::string& value);
// op(operands), computed in `operation`, as a value of type `result`.
std::string apply_text(const ir::Instruction& instruction, CType operation, CType result,
                       const std::vector<std::string>& operands);

}  // namespace monograph::codegen
