#include "passes/collective/bucket_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "passes/collective/bucket_sizes.h"
#include "passes/memory/placement.h"
#include "passes/simplify/match.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;
using Users = ir::ValueMap<std::vector<Node*>>;

struct Reduction {
  Value gradient;
  ir::Attributes attributes;  // of the all_reduce
  double factor = 1;
  bool operator==(const Reduction& other) const {  // may share a bucket
    return attributes == other.attributes && factor == other.factor;
  }
};

class Bucketing {
 public:
  Bucketing(ir::Graph& graph, PassContext& context)
      : build_(graph), users_(ir::users_of(graph)), context_(context) {
    for (Value root : graph.roots()) roots_.insert(root);
  }

  ir::Rewrite visit(Node& node) {
    if (!node.is("pack")) return ir::keep();
    const std::vector<Run> runs = runs_of(node);
    if (runs.size() == 1 && !runs[0].reductions.empty())
      return in_buckets(node, runs[0].reductions);
    const bool has_buckets = std::any_of(runs.begin(), runs.end(),
                                         [](const Run& run) { return run.reductions.size() > 1; });
    if (!has_buckets) return ir::keep();
    std::vector<Value> parts;
    for (const Run& run : runs) {
      parts.push_back(run.reductions.size() > 1
                          ? in_buckets(node, run.reductions)
                          : build_.emit("pack", run.operands, node.attributes()));
    }
    return build_.emit("cat", parts, {{"axis", int64_t{0}}});
  }

 private:
  // Operands of a pack side by side: reduced alike, or one that is not reduced.
  struct Run {
    std::vector<Value> operands;
    std::vector<Reduction> reductions;  // of each; or empty
  };

  std::vector<Run> runs_of(const Node& pack) const {
    std::vector<Run> runs;
    for (Value operand : pack.operands()) {
      const auto reduction = match(operand);
      const bool goes_on = reduction && !runs.empty() && !runs.back().reductions.empty() &&
                           runs.back().reductions[0] == *reduction;
      if (!goes_on) runs.emplace_back();
      runs.back().operands.push_back(operand);
      if (reduction) runs.back().reductions.push_back(*reduction);
    }
    return runs;
  }

  bool is_used_once(Value value) const {
    const auto users = users_.find(value);
    return users != users_.end() && users->second.size() == 1 && !roots_.contains(value);
  }

  // all_reduce(g), or that times a constant; nobody else reads either.
  std::optional<Reduction> match(Value value) const {
    Reduction result;
    if (!is_used_once(value)) return {};
    const Node* node = value.node;
    if (node->is("mul")) {
      const auto factor = constant_of(node->operand(1));
      if (!factor || !is_used_once(node->operand(0))) return {};
      result.factor = *factor;
      node = node->operand(0).node;
    }
    if (!node->is("all_reduce")) return {};
    result.gradient = node->operand(0);
    result.attributes = node->attributes();
    return result;
  }

  Value in_buckets(const Node& pack, const std::vector<Reduction>& reductions) {
    const int64_t element_bytes = ir::dtype_bytes(pack.types()[0].dtype);
    std::vector<ir::Shape> shapes;
    for (const Reduction& each : reductions) shapes.push_back(each.gradient.shape());
    std::vector<int64_t> offsets = pack_offsets(shapes, pack.attribute<int64_t>("alignment"));
    for (int64_t& offset : offsets) offset *= element_bytes;
    std::vector<Value> parts;
    for (const BucketRange& bucket : bucket_ranges(offsets, context_.link)) {
      parts.push_back(add_bucket(pack, reductions, offsets, bucket));
    }
    const Value flat = build_.emit("cat", parts, {{"axis", int64_t{0}}});
    return reductions[0].factor == 1 ? flat : build_.mul(flat, reductions[0].factor);
  }

  Value add_bucket(const Node& pack, const std::vector<Reduction>& reductions,
                   const std::vector<int64_t>& offsets, const BucketRange& bucket) {
    const int64_t element_bytes = ir::dtype_bytes(pack.types()[0].dtype);
    std::vector<Value> gradients;
    int64_t first = 0;  // byte of the first gradient that reaches into the bucket
    for (size_t i = 0; i < reductions.size(); ++i) {
      if (offsets[i + 1] <= bucket.begin || offsets[i] >= bucket.end) continue;
      if (gradients.empty()) first = offsets[i];
      gradients.push_back(reductions[i].gradient);
    }
    ir::Attributes attributes = reductions[0].attributes;
    attributes["alignment"] = pack.attribute<int64_t>("alignment");
    attributes["begin"] = (bucket.begin - first) / element_bytes;
    attributes["count"] = (bucket.end - bucket.begin) / element_bytes;
    const size_t num_gradients = gradients.size();
    Node* start = build_.emit_node("all_reduce_start", std::move(gradients), attributes);
    context_.remark(*start, fmt::format("a bucket of {} bytes, {} gradients",
                                        bucket.end - bucket.begin, num_gradients));
    return build_.emit("all_reduce_done", {start->result()});
  }

  ops::Builder build_;
  const Users users_;
  PassContext& context_;
  ir::ValueSet roots_;
};

}  // namespace

bool bucket_all_reduce(ir::Graph& graph, PassContext& context) {
  Bucketing bucketing(graph, context);
  return ir::rewrite(graph, [&](Node& node) { return bucketing.visit(node); });
}

}  // namespace monograph::passes
