#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/session/dynamic_inputs.h"
#include "frontend/session/guards.h"
#include "frontend/session/session.h"
#include "frontend/session/state_store.h"
#include "frontend/session/variant.h"

namespace monograph::session {

// What the copies of a compiled function share.
struct Compiled::Data {
  TracedFunction function;
  CompileOptions options;
  std::shared_ptr<StateStore> states;
  EventLog* events = nullptr;
  std::shared_ptr<SessionMesh> mesh;
  std::vector<std::unique_ptr<Variant>> variants;  // by signature
  Variant* last = nullptr;
  std::vector<GuardMiss> misses;
  std::vector<std::string> specializations;
  Fallback pass_fallback;  // of the last graph: passes that it was compiled without
  bool has_hung = false;   // one of the user's passes: none of them is run again
  int64_t num_eager_calls = 0;
  bool has_exchanges = false;  // on some path that was traced

  const Mesh& mesh_now() const { return mesh->context; }
  std::string input_name(size_t index) const;
  // A graph that they fail on, or hang, stays as it was traced, where the options say so, and
  // pass_fallback says why.
  void run_user_passes(ir::Graph& graph);

  // Dynamic sizes (build_dynamic.cc).
  std::unique_ptr<Variant> build_dynamic(const Compiled& compiled, const Call& call);
  bool set_sizes(const Compiled& compiled, Variant& variant, Call& call);

 private:
  DynamicShapes dynamic_shapes_of(const Call& call, std::span<const std::string> names) const;
  std::unique_ptr<Variant> build_for(const Compiled& compiled, const Call& call,
                                     DynamicInputs inputs, std::string& why);
  void note_specialization(const DynamicInputs& inputs, const std::string& why);
  std::vector<std::unique_ptr<Variant>> trace_instances(const Compiled& compiled, const Call& call,
                                                        const DynamicInputs& inputs,
                                                        std::string& why);
};

// What one call gives and has read so far.
struct Compiled::Call {
  CallFacts facts;
  const runtime::InputMap* inputs = nullptr;  // null: nothing is known but the types
  Journal journal = {};
};

}  // namespace monograph::session
