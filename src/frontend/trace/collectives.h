#pragma once

#include <string_view>

#include "frontend/trace/functions.h"
#include "ir/mesh.h"

// Collectives that a function calls itself: nodes like others, differentiable, scheduled so that
// what does not need them runs beside them. Every rank of the mesh runs the same function. Where
// the loss of each rank adds to the loss of all, gradients flow through them as written.
namespace monograph::trace {

// The sum (max, min) of x over the ranks of the axis, on each of them; max and min have no
// gradient.
Tensor all_reduce(Argument x, const ir::Mesh& mesh, std::string_view axis,
                  std::string_view op = "sum");
// The mean: the sum and a multiplication, which fuses with its surroundings.
Tensor all_mean(Argument x, const ir::Mesh& mesh, std::string_view axis);
// The x of the rank at place `root` on the axis.
Tensor broadcast(Argument x, const ir::Mesh& mesh, std::string_view axis, int64_t root = 0);
// The x of all ranks along the first dim: [d, ...] -> [d * ranks, ...].
Tensor all_gather(Argument x, const ir::Mesh& mesh, std::string_view axis);
// This rank's part of the sum along the first dim, which the number of ranks divides.
Tensor reduce_scatter(Argument x, const ir::Mesh& mesh, std::string_view axis,
                      std::string_view op = "sum");
// Part r of x along the first dim, which the number of ranks divides, goes to rank r; part r of the
// result is what came from it. On CPUs.
Tensor all_to_all(Argument x, const ir::Mesh& mesh, std::string_view axis);
// Sends x to the rank at place `to`, whose function calls recv; gives 0, f32[], to be added to what
// the function returns: what nobody reads is not done. Only over axis "pp" may ranks have functions
// of their own; sends and recvs that do not meet are an error before the first step. On CPUs.
Tensor send(Argument x, const ir::Mesh& mesh, std::string_view axis, int64_t to);
// What the rank at place `from` sends, once `after`, f32[], is made. Where that depends on a
// parameter, the gradient of what comes goes back to the sender, whose backward takes it.
Tensor recv(const Tensor& after, const ir::TensorType& type, const ir::Mesh& mesh,
            std::string_view axis, int64_t from);
// This rank's place on the axis, i64[]. The session knows it; the graph does not.
Tensor coordinate(Trace& trace, const ir::Mesh& mesh, std::string_view axis);

}  // namespace monograph::trace
