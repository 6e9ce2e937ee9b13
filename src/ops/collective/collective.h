#pragma once

#include "ir/program/program.h"
#include "ops/division.h"

// Ops that all ranks of a mesh axis run together. Each comes as one node (what is computed), and as
// a start and a done (when: between them the exchange is under way), which passes make of it.
// Attributes: `axis`, the mesh axis; `size`, its number of ranks; `op`, the reduction.
// The references are those of an axis of one rank; a larger one runs on a mesh (runtime).
namespace monograph::ops {

// Of what belongs to a unit of fully sharded training: its name, and which way over the model a
// gather is for (0: the first).
inline constexpr AttributeSpec kUnit = {"unit", AttributeKind::kString, true};
// Of an exchange of gradients: Compression::str(), and the gradient's name.
inline constexpr AttributeSpec kCompress = {"compress", AttributeKind::kString, true};
inline constexpr AttributeSpec kGradient = {"gradient", AttributeKind::kString, true};
inline constexpr AttributeSpec kWindow = {"window", AttributeKind::kInt, true};

std::vector<AttributeSpec> collective_attributes(std::vector<AttributeSpec> more);

// Refuses an axis without a name, a size below 1, and dtypes that are not exchanged.
void check_collective(const InferContext& context);
void check_reduction(const InferContext& context);    // `op`: sum, max, min
void check_compression(const InferContext& context);  // `compress`, where given: of f32 sums
void check_divides(const InferContext& context);      // dim 0 by `size`
ir::Shape with_first_dim(const ir::Shape& shape, int64_t dim);

// results[0] = operands[0]; UserError for an axis of more than one rank.
void one_rank_reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results);
void check_one_rank(const ir::Node& node);

// Attributes of the same collective: axis, size and, where given, the reduction.
ir::Attributes same_axis(const ir::Node& node);
ir::Attributes same_axis(const ir::Node& node, std::string_view op);

// Each rank's part is exchanged over the other axis, if not that of stages, as it is. `moves_rows`:
// the first dim is cut or put together, and must not be the sharded one.
std::optional<Division> divide_collective(const DivisionContext& context, bool moves_rows);

// What a collective node, or its start, asks of a communicator; without addresses.
ir::CollectiveStep collective_step(const ir::Node& node);
// The elements that an all_reduce_start sends, side by side.
void copy_range(const ir::Node& start, Literals operands, ir::Literal& result);

std::vector<Sample> samples_collective(ir::Attributes attributes, bool check_gradient);
std::vector<BadSample> bad_samples_collective(ir::Attributes attributes);

// The done of any start: the start's result, complete.
OpDef done_op(std::string_view name);

}  // namespace monograph::ops
