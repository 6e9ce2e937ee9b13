#include "runtime/mesh_context.h"

#include "base/error.h"

namespace monograph::runtime {
namespace {

using Kind = ir::CollectiveStep::Kind;

comm::ElementType element_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF32:
      return comm::ElementType::kF32;
    case ir::DType::kF64:
      return comm::ElementType::kF64;
    case ir::DType::kBF16:
      return comm::ElementType::kBF16;
    case ir::DType::kF16:
      return comm::ElementType::kF16;
    case ir::DType::kI32:
      return comm::ElementType::kI32;
    case ir::DType::kI64:
      return comm::ElementType::kI64;
    case ir::DType::kU8:
      return comm::ElementType::kU8;
    default:
      throw_internal_error("a collective of {}", ir::dtype_name(dtype));
  }
}

comm::ReduceOp reduce_op(ir::CollectiveStep::Reduction reduction) {
  switch (reduction) {
    case ir::CollectiveStep::Reduction::kSum:
      return comm::ReduceOp::kSum;
    case ir::CollectiveStep::Reduction::kMax:
      return comm::ReduceOp::kMax;
    case ir::CollectiveStep::Reduction::kMin:
      return comm::ReduceOp::kMin;
  }
  return comm::ReduceOp::kSum;
}

}  // namespace

comm::Communicator& MeshContext::along(std::string_view axis, int64_t size) const {
  const auto found = communicators.find(axis);
  if (found == communicators.end()) {
    throw_user_error(
        "a collective runs over axis '{}' of {} ranks, but {} has no group for it: "
        "give the session a mesh with that axis",
        axis, size, mesh.str());
  }
  if (found->second->size() != size) {
    throw_user_error(
        "a collective runs over axis '{}' of {} ranks, but its group has {}: trace "
        "with the mesh that the session has, {}",
        axis, size, found->second->size(), mesh.str());
  }
  return *found->second;
}

std::vector<int> MeshContext::ranks_along(std::string_view axis) const {
  const std::vector<int64_t> group = mesh.group(axis, rank);
  return {group.begin(), group.end()};
}

std::string MeshContext::group_name(std::string_view axis) const {
  return fmt::format("{}@{}", axis, ranks_along(axis)[0]);  // one of many on the axis
}

std::shared_ptr<MeshContext> make_mesh_context(const ir::Mesh& mesh, comm::World& world) {
  if (mesh.num_ranks() != world.size) {
    throw_user_error("{} on a world of {} ranks: the sizes of its axes must multiply to that",
                     mesh.str(), world.size);
  }
  auto context = std::make_shared<MeshContext>();
  context->mesh = mesh;
  context->rank = world.rank;
  context->store = world.store;
  context->world = &world;
  for (const ir::Mesh::Axis& axis : mesh.axes()) {
    context->communicators[axis.name] =
        world.split(context->ranks_along(axis.name), context->group_name(axis.name));
  }
  return context;
}

std::shared_ptr<MeshContext> describe_mesh(const ir::Mesh& mesh, int rank) {
  mesh.coordinates(rank);  // refuses one that is not in it
  auto context = std::make_shared<MeshContext>();
  context->mesh = mesh;
  context->rank = rank;
  return context;
}

comm::Communicator& communicator_of(const ir::CollectiveStep& step, const MeshContext* mesh) {
  if (mesh != nullptr) return mesh->along(step.axis, step.size);
  throw_user_error(
      "the step runs {} over axis '{}' of {} ranks, but has no mesh: give the session one",
      kind_name(step.kind), step.axis, step.size);
}

comm::Call call_of(const ir::CollectiveStep& step, std::string_view label) {
  const auto operation = [&] {
    switch (step.kind) {
      case Kind::kAllReduce:
        return comm::Operation::kAllReduce;
      case Kind::kBroadcast:
        return comm::Operation::kBroadcast;
      case Kind::kAllGather:
        return comm::Operation::kAllGather;
      case Kind::kReduceScatter:
        return comm::Operation::kReduceScatter;
      case Kind::kAllToAll:
        return comm::Operation::kAllToAll;
      case Kind::kSend:
        return comm::Operation::kSend;
      case Kind::kRecv:
        return comm::Operation::kRecv;
    }
    return comm::Operation::kBarrier;
  };
  comm::Call call = comm::make_call(operation(), step.count, element_type(step.dtype), label);
  call.reduce = reduce_op(step.reduction);
  if (step.kind == Kind::kBroadcast || step.is_transfer()) {
    call.peer = static_cast<int>(step.root);
  }
  return call;
}

void run_collective(const ir::CollectiveStep& step, const void* from, void* to,
                    comm::Communicator& communicator, std::string_view label) {
  const comm::ElementType type = element_type(step.dtype);
  switch (step.kind) {
    case Kind::kAllReduce:
      return communicator.all_reduce(to, step.count, type, reduce_op(step.reduction), label);
    case Kind::kBroadcast:
      return communicator.broadcast(to, step.count, type, static_cast<int>(step.root), label);
    case Kind::kAllGather:
      return communicator.all_gather(from, to, step.count, type, label);
    case Kind::kReduceScatter:
      return communicator.reduce_scatter(from, to, step.count, type, reduce_op(step.reduction),
                                         label);
    case Kind::kAllToAll:
      return communicator.all_to_all(from, to, step.count, type, label);
    case Kind::kSend:
      communicator.send(from, step.count, type, static_cast<int>(step.root), label);
      *static_cast<float*>(to) = 0;
      return;
    case Kind::kRecv:
      return communicator.recv(to, step.count, type, static_cast<int>(step.root), label);
  }
}

}  // namespace monograph::runtime
