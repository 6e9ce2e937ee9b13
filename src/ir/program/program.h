#pragma once

#include <array>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/loop/loop.h"

// When things happen and where bytes live. A Program holds no rank, device index, path or time.
namespace monograph::ir {

enum class Segment : uint8_t {
  kInput,
  kWeights,
  kMoments,
  kBuffers,
  kGradients,
  kOutput,
  kScratch
};
inline constexpr int kNumSegments = 7;
std::string_view segment_name(Segment segment);

struct Address {
  Segment segment = Segment::kScratch;
  int64_t offset = 0;  // bytes
  bool operator==(const Address&) const = default;
};

// One launch of kernels[kernel]: an address for each buffer of its Loop, and its scalars. A kernel
// for many sizes is given the numbers that depend on them behind these.
struct KernelStep {
  int kernel = -1;
  std::vector<Address> arguments;
  std::vector<int64_t> scalars;
};

// c[b] = op(a[b]) @ op(b[b]) (+ bias, broadcast over rows; + c[b] as it was): f32, f64, or bf16
// operands with a bf16 or f32 result (accumulated in f32); row-major with leading dimensions; for
// every index of `batch`, with element strides per batch axis.
struct GemmStep {
  DType dtype = DType::kF32;         // of a and b
  DType result_dtype = DType::kF32;  // of c
  DType bias_dtype = DType::kF32;
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  std::vector<int64_t> batch, batch_strides_a, batch_strides_b, batch_strides_c;
  Address a, b, c;
  bool accumulates = false;  // adds to what c holds
  bool has_bias = false;
  bool bias_along_rows = false;  // bias[i] for row i (a transposed product) instead of bias[j]
  Address bias;
};

// Stable counting sort: order = positions sorted by id; offsets[v] .. offsets[v+1] are those with
// id v. UserError at run time for an id outside 0..num_ids-1.
struct SortIdsStep {
  DType ids_dtype = DType::kI64;
  int64_t num_positions = 0, num_ids = 0;
  Address ids, order, offsets;  // order: i32[num_positions], offsets: i32[num_ids + 1]
};

// The k largest of each row of x, the largest first, equal ones by place, NaN above all.
struct TopKStep {
  int64_t rows = 0, length = 0, k = 0;
  Address x, values, indices;  // f32[rows, length] -> f32[rows, k], i32[rows, k]
};

// softmax(scale q k^T, causally masked) v over heads of `width`, or its gradients. `heads` is a
// multiple of `kv_heads`; causal: query i sees keys up to i + keys - queries.
struct AttentionStep {
  struct Tensor {  // [batch, head, position, width], or without width: logsumexp
    Address address;
    std::array<int64_t, 3> strides = {};  // elements; that of width is 1
  };
  static constexpr int64_t kMaxWidth = 256;  // f64: any
  DType dtype = DType::kF32;  // of all but logsumexp (f32, or f64 too) and the workspace (f32)
  bool is_backward = false, causal = false;
  bool is_deterministic = true;  // backward on GPUs: two runs give the same bits
  double scale = 1;
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, width = 0;
  Tensor q, k, v, output, logsumexp;
  Tensor grad_output, grad_q, grad_k, grad_v;  // backward only
  // Backward only. The keys of a head are split where there are few heads, and the gradients of q
  // added up over the splits: the numbers depend on the shape, never on the threads.
  int64_t num_splits = 1;
  Address workspace;  // delta (sum of grad_output * output) by row, then the parts, if any

  int64_t wanted_splits() const;  // enough jobs for the threads of any machine
  int64_t keys_per_split() const;
  bool has_parts() const;        // gradients of q that are added up apart, in f32
  int64_t padded_width() const;  // of the rows of the parts: whole cache lines
  int64_t num_deltas() const;    // floats, whole cache lines
  int64_t workspace_bytes() const;
};

// Images and windows over them; all tensors dense, channels last.
struct ImageSizes {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0;
  std::array<int64_t, 2> kernel = {}, stride = {}, padding = {};  // of rows and columns
};

// y = convolution of images x with weight[height,width,in,out], or the gradient of x or of weight:
// one of (x, weight, y) is written, the two others are read.
struct ConvStep {
  enum class Direction : uint8_t { kForward, kBackwardData, kBackwardWeight };
  DType dtype = DType::kF32;
  Direction direction = Direction::kForward;
  ImageSizes sizes;
  int64_t out_channels = 0;
  Address x, weight, y;  // each may be a gradient
};

// y = the largest element of each window of x; backward: grad_x, from y's gradient and x.
struct MaxPoolStep {
  DType dtype = DType::kF32;
  bool is_backward = false;
  ImageSizes sizes;
  Address x, y;
  Address grad_x;  // backward only
};

// One exchange between the ranks of a mesh axis. From here to its WaitStep nothing else may touch
// its memory.
struct CollectiveStep {
  enum class Kind : uint8_t {
    kAllReduce,
    kBroadcast,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kSend,  // `to` becomes a zero, f32[], when it is done
    kRecv,  // `from` is not read
  };
  bool is_transfer() const { return kind == Kind::kSend || kind == Kind::kRecv; }
  // Whether the larger buffer has a part for each rank, of `count` elements.
  bool has_parts() const;
  enum class Reduction : uint8_t { kSum, kMax, kMin };
  Kind kind = Kind::kAllReduce;
  std::string axis;
  int64_t size = 1;  // ranks on the axis
  Reduction reduction = Reduction::kSum;
  int64_t root = 0;  // of a broadcast: its coordinate; of a send or recv: that of the other side
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements; where there are parts: of one rank's part
  Address from, to;   // equal where it works in place
  int num_tensors = 1;

  int64_t num_bytes() const;   // of the larger buffer
  int64_t sent_bytes() const;  // by a rank, on a ring
};
std::string_view kind_name(CollectiveStep::Kind kind);                 // "all_reduce"
std::string_view reduction_name(CollectiveStep::Reduction reduction);  // "sum"

// The compute lane stops until a collective, which `waits` names, is complete.
struct WaitStep {
  Address from, to;
};

// Steps of one lane run in order, lanes beside each other.
enum class Lane : uint8_t { kCompute, kCommunication };
std::string_view lane_name(Lane lane);

struct Step {
  std::variant<KernelStep, GemmStep, SortIdsStep, TopKStep, AttentionStep, ConvStep, MaxPoolStep,
               CollectiveStep, WaitStep>
      work;
  Lane lane = Lane::kCompute;
  std::vector<int> waits;  // steps of other lanes that end before it begins
  std::string name;        // for people: "h.0.ln_1: add, sum, sub, mul, rsqrt"
  Phase phase = Phase::kForward;
  int num_nodes = 1;  // graph nodes done by this step
  double flops = 0;
  int64_t bytes_moved = 0;  // by this step as written
  int64_t bytes_least = 0;  // each distinct element of each operand and result once
};

// Every address that the step reads or writes.
void for_each_address(Step& step, const std::function<void(Address&)>& visit);

struct ProgramTensor {
  std::string name;
  TensorType type;
  Address address;
  StateRole role = StateRole::kBuffer;  // states only
};

struct Program {
  std::vector<int64_t> segment_bytes = std::vector<int64_t>(kNumSegments, 0);
  std::vector<ProgramTensor> inputs, states, outputs;
  std::vector<Loop> kernels;  // distinct
  std::vector<Step> steps;    // in order
  int64_t peak_bytes = 0;     // all segments
  int64_t bound_bytes = 0;    // no plan for this order of steps can need less

  std::string str() const;
};

}  // namespace monograph::ir
