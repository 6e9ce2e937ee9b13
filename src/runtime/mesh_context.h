#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/world.h"
#include "ir/mesh.h"
#include "ir/program/program.h"

namespace monograph::runtime {

// What one rank brings to a run: the mesh and, for each axis, the group of the ranks that differ
// from it on that axis only. A rank is known here, and nowhere in a graph or a Program.
struct MeshContext {
  ir::Mesh mesh;
  int rank = 0;
  std::shared_ptr<comm::Store> store;   // where ranks compare what they compiled; null: they do not
  comm::Milliseconds timeout{300'000};  // of that: compiling takes longer on some ranks
  std::map<std::string, std::shared_ptr<comm::Communicator>, std::less<>> communicators;
  comm::World* world = nullptr;  // for groups of GPUs; outlives this

  // The ranks of this rank's group on the axis, and its name among the groups of the world.
  std::vector<int> ranks_along(std::string_view axis) const;
  std::string group_name(std::string_view axis) const;

  // UserError when there is no group for the axis, or it is not of `size` ranks.
  comm::Communicator& along(std::string_view axis, int64_t size) const;
};

// The groups of this rank. UserError when the mesh has not as many ranks as the world. Every rank
// calls it; the world must outlive the result.
std::shared_ptr<MeshContext> make_mesh_context(const ir::Mesh& mesh, comm::World& world);

// A rank of a mesh that is not there, for compiling: nothing runs on it.
std::shared_ptr<MeshContext> describe_mesh(const ir::Mesh& mesh, int rank);

// The communicator of the step; UserError without a mesh.
comm::Communicator& communicator_of(const ir::CollectiveStep& step, const MeshContext* mesh);

// What the ranks call for it.
comm::Call call_of(const ir::CollectiveStep& step, std::string_view label);

// Runs it; blocks. CommError as the communicator gives it.
void run_collective(const ir::CollectiveStep& step, const void* from, void* to,
                    comm::Communicator& communicator, std::string_view label);

}  // namespace monograph::runtime
