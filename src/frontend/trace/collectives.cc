#include "frontend/trace/collectives.h"

#include "frontend/trace/trace.h"

namespace monograph::trace {
namespace {

ir::Attributes attributes_of(const ir::Mesh& mesh, std::string_view axis) {
  return {{"axis", std::string(axis)}, {"size", mesh.size(axis)}};
}

ir::Attributes attributes_of(const ir::Mesh& mesh, std::string_view axis, std::string_view op) {
  ir::Attributes attributes = attributes_of(mesh, axis);
  attributes["op"] = std::string(op);
  return attributes;
}

}  // namespace

Tensor all_reduce(Argument x, const ir::Mesh& mesh, std::string_view axis, std::string_view op) {
  return emit("all_reduce", {x}, attributes_of(mesh, axis, op));
}

Tensor all_mean(Argument x, const ir::Mesh& mesh, std::string_view axis) {
  const Caller caller("all_mean", {x});
  const auto num_ranks = static_cast<double>(mesh.size(axis));
  return all_reduce(x, mesh, axis) * (1 / num_ranks);
}

Tensor broadcast(Argument x, const ir::Mesh& mesh, std::string_view axis, int64_t root) {
  const Caller caller("broadcast", {x});
  ir::Attributes attributes = attributes_of(mesh, axis);
  attributes["root"] = root;
  return emit("broadcast", {x, coordinate(caller.trace(), mesh, axis)}, attributes);
}

Tensor all_gather(Argument x, const ir::Mesh& mesh, std::string_view axis) {
  return emit("all_gather", {x}, attributes_of(mesh, axis));
}

Tensor reduce_scatter(Argument x, const ir::Mesh& mesh, std::string_view axis,
                      std::string_view op) {
  return emit("reduce_scatter", {x}, attributes_of(mesh, axis, op));
}

Tensor all_to_all(Argument x, const ir::Mesh& mesh, std::string_view axis) {
  return emit("all_to_all", {x}, attributes_of(mesh, axis));
}

Tensor send(Argument x, const ir::Mesh& mesh, std::string_view axis, int64_t to) {
  ir::Attributes attributes = attributes_of(mesh, axis);
  attributes["peer"] = to;
  return emit("send", {x}, attributes);
}

Tensor recv(const Tensor& after, const ir::TensorType& type, const ir::Mesh& mesh,
            std::string_view axis, int64_t from) {
  ir::Attributes attributes = attributes_of(mesh, axis);
  attributes["peer"] = from;
  attributes["shape"] = type.shape.dims();
  attributes["dtype"] = type.dtype;
  return emit("recv", {after}, attributes);
}

Tensor coordinate(Trace& trace, const ir::Mesh& mesh, std::string_view axis) {
  mesh.size(axis);  // names the axes when there is none of that name
  return trace.coordinate(axis);
}

}  // namespace monograph::trace
