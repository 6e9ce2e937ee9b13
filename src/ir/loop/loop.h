#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "ir/type.h"

// How one kernel iterates. The grammar and five worked kernels are in docs/loop.md.
namespace monograph::ir {

// Scalar functions; each is a pointwise op of the same name.
enum class ScalarOp : uint8_t {
  kAbs,
  kAdd,
  kConvert,
  kCos,
  kDiv,
  kEq,
  kErf,
  kExp,
  kGe,
  kGt,
  kLe,
  kLog,
  kLogicalAnd,
  kLogicalNot,
  kLogicalOr,
  kLt,
  kMaximum,
  kMinimum,
  kMul,
  kNe,
  kNeg,
  kPow,
  kReciprocal,
  kRsqrt,
  kSin,
  kSqrt,
  kSub,
  kTanh,
  kWhere
};
std::string_view scalar_op_name(ScalarOp op);              // "add"
bool find_scalar_op(std::string_view name, ScalarOp* op);  // false when `name` is no scalar op
bool is_transcendental(ScalarOp op);                       // worth keeping rather than doing again

// What a value is while it is in a register: bf16 and f16 are float32, integers are int64.
enum class RegisterType : uint8_t { kF32, kF64, kI64, kBool };
RegisterType register_type(DType dtype);

// Where a value lives: once per launch, once per row, or once per element of a row.
enum class Domain : uint8_t { kScalar, kRow, kElement };

// A place in memory: buffer[offset + sum_d row_strides[d] * r_d + inner_stride * j + index *
// index_stride], in elements. `index` is an instruction of scalar or row domain (an embedding's
// id), or -1.
struct Access {
  int buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> row_strides;
  int64_t inner_stride = 0;
  int index = -1;
  int64_t index_stride = 0;
};

enum class InstructionKind : uint8_t {
  kConstant,    // value
  kLoad,        // access
  kIndex,       // the number access.offset + strides * indices (no memory is read)
  kArgument,    // the launch's scalar number `argument`: i64, what equal kernels differ in
  kPhilox,      // operands: seed, step, stream; access as in kIndex gives the element number
  kApply,       // op(operands)
  kReduce,      // row reduction of an element value by `reduction`; the result has row domain
  kSegmentSum,  // operands: begin, end (row domain); sums rows values[order[s]] for s in [begin,
                // end): access: values (access.index_stride = elements a row); order:
                // `order_buffer`
  kStore,       // operand 0 to access
  kAccumulate,  // operand 0 over all rows (and over the inner axis too unless `keeps_inner`) to
                // access
};
enum class Reduction : uint8_t { kSum, kMax };

struct Instruction {
  InstructionKind kind;
  RegisterType type = RegisterType::kF32;  // of the result (of the stored value for kStore)
  Domain domain = Domain::kElement;
  std::vector<int> operands = {};  // earlier instructions
  ScalarOp op = ScalarOp::kAdd;
  Reduction reduction = Reduction::kSum;
  Access access = {};
  double value = 0;
  int argument = 0;
  int order_buffer = -1;
  bool keeps_inner = false;
  // Row-domain values and sinks (reduce, store, accumulate of elements): the sweep over the inner
  // axis in which, or (row domain) before which, they are computed. Sweep k+1 may use the
  // reductions of sweeps 0..k. Element values are computed again in each sweep that needs them,
  // unless `keep`.
  int sweep = 0;
  // Element values: computed in the sweep `sweep`, held in a row buffer for later sweeps.
  bool keep = false;
};

struct LoopBuffer {
  DType dtype = DType::kF32;
  enum class Use : uint8_t { kInput, kOutput, kWorkspace } use = Use::kInput;
  int64_t num_elements = 0;  // kWorkspace: how many are needed
  int64_t alignment = 0;     // bytes that the address is known to be a multiple of; 0: its dtype's
};

// rows x inner, split into a fixed number of blocks whatever the number of threads, so that the
// sums of kAccumulate are added in one order. A block is a part of the rows, or of the inner axis.
struct Loop {
  enum class Split : uint8_t { kRows, kInner };

  std::vector<int64_t> row_extents;  // outermost first; empty: one row
  int64_t inner_extent = 1;
  Split split = Split::kRows;
  int64_t num_blocks = 1;
  std::vector<LoopBuffer> buffers;  // the arguments, in order
  std::vector<Instruction> instructions;
  int num_sweeps = 1;
  // Accumulations across blocks write num_blocks partial results here, then add them in order:
  // accumulation i starts at partial_offsets[i] (elements, in order of kAccumulate). -1: none
  // needed.
  int partials_buffer = -1;
  std::vector<int64_t> partial_offsets;

  int64_t num_rows() const;
  int num_scalars() const;  // scalars that a launch gives
  std::string str() const;  // the text form; equal text = the same kernel
  Hash hash() const;
};

// Checks that the loop is well formed: operand order and domains, accesses, sweeps. Throws
// InternalError that names the instruction.
void verify(const Loop& loop);

}  // namespace monograph::ir
