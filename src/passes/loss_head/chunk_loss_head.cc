#include "passes/loss_head/chunk_loss_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/liveness.h"
#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/registry.h"
#include "passes/loss_head/row_region.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Shape;
using ir::Value;
using Role = RowRegion::Role;
using Axes = std::vector<int64_t>;

constexpr int64_t kFewestRows = 16;  // in a chunk: products of fewer rows are slow

// The smallest number of equal chunks of at most `chunk_bytes`; 0 when there is none.
int64_t choose_num_chunks(const ir::TensorType& logits, int64_t num_rows, int64_t chunk_bytes) {
  for (int64_t count = 2; count * std::min(kFewestRows, num_rows / 2) <= num_rows; ++count) {
    if (num_rows % count == 0 && logits.num_bytes() / count <= chunk_bytes) return count;
  }
  return 0;
}

// Appends the chunks of a region to a graph.
class Chunks {
 public:
  Chunks(ir::Graph& graph, const RowRegion& region, int64_t count)
      : region_(region), build_(graph), count_(count), size_(region.num_rows / count) {}

  void append() {
    for (chunk_ = 0; chunk_ < count_; ++chunk_) append_chunk();
  }

  // What stands for the values of the region that are read outside.
  ir::ValueMap<Value> replacements() {
    ir::ValueMap<Value> result;
    for (Node* node : region_.nodes) {
      const Role role = region_.roles.at(node);
      if (role == Role::kRow || role == Role::kTransposed) continue;
      enter(*node);
      const Value whole = role == Role::kTotal ? totals_.at(node) : join(node->result());
      const Value shaped = build_.reshape(whole, node->types()[0].shape);
      Value& replacement = result[node->result()];
      replacement = build_.convert(shaped, node->types()[0].dtype);
      if (replacement != shaped) narrowed_.insert(replacement.node);
    }
    for (Value value : region_.leaving) {
      enter(*value.node);
      result[value] = build_.reshape(join(value), value.shape());
    }
    return result;
  }

  // The converts of totals that were accumulated wider than they were before.
  const std::unordered_set<const Node*>& narrowed() const { return narrowed_; }

 private:
  void enter(const Node& node) {
    build_.set_phase(node.phase());
    build_.set_provenance(node.provenance());
  }

  void append_chunk() {
    const std::vector<Value> before = std::exchange(made_, {});
    values_.clear();
    append_product(before);
    for (Node* node : region_.nodes) {
      const Role role = region_.roles.at(node);
      if (role == Role::kTotal) {
        add_total(*node);
      } else {
        values_[node->result()] = clone(*node);
      }
      if (role == Role::kRowProduct) keep_part(node->result());
    }
    for (Value value : region_.leaving) keep_part(value);
  }

  void append_product(const std::vector<Value>& before) {
    Node& product = *region_.product;
    enter(product);
    Value rows = chunk_of(product.operand(0));
    if (!before.empty()) {
      std::vector<Value> operands = {rows};
      operands.insert(operands.end(), before.begin(), before.end());
      rows = build_.emit("after", operands);
    }
    values_[product.result()] =
        build_.emit("matmul", {rows, product.operand(1)}, product.attributes());
  }

  void keep_part(Value value) {
    const Value part = values_.at(value);
    parts_[value].push_back(part);
    made_.push_back(part);
  }

  Value join(Value value) { return build_.emit("cat", parts_.at(value), {{"axis", int64_t{0}}}); }

  // Accumulated in f32 at least; over the matrix of the chunks before, if it is a product.
  void add_total(const Node& node) {
    enter(node);
    const auto before = totals_.find(&node);
    Value total;
    if (node.is("matmul")) {
      std::vector<Value> operands = {rows_along(node.operand(0), 1),
                                     rows_along(node.operand(1), 0)};
      ir::Attributes attributes;
      if (operands[0].dtype() != ir::DType::kF64) attributes["dtype"] = ir::DType::kF32;
      if (before != totals_.end()) operands.insert(operands.begin(), before->second);
      total = build_.emit(before == totals_.end() ? "matmul" : "addmm", operands, attributes);
    } else {
      total = clone(node);
      if (before != totals_.end()) total = build_.add(before->second, total);
    }
    totals_[&node] = total;
    made_.push_back(total);
  }

  // The chunk's rows of a matrix that has the rows along `axis`.
  Value rows_along(Value value, int64_t axis) {
    const auto inside = values_.find(value);
    if (inside != values_.end()) return inside->second;
    return build_.emit("slice", {value},
                       {{"axis", axis}, {"start", chunk_ * size_}, {"end", (chunk_ + 1) * size_}});
  }

  Shape chunk_shape(const Shape& shape) const {
    std::vector<int64_t> dims = shape.dims();
    dims.erase(dims.begin(), dims.begin() + *region_.row_rank(shape));
    dims.insert(dims.begin(), size_);
    return Shape(std::move(dims));
  }

  // A value with rows: cloned where it is in the region or cheaply made from narrow ones, else a
  // slice.
  Value chunk_of(Value value) {
    const auto known = values_.find(value);
    if (known != values_.end()) return known->second;
    Value result;
    if (is_worth_cloning(*value.node)) {
      result = clone(*value.node);
    } else {
      std::vector<int64_t> dims = chunk_shape(value.shape()).dims();
      dims[0] = region_.num_rows;
      result = rows_along(build_.reshape(value, Shape(std::move(dims))), 0);
    }
    values_[value] = result;
    return result;
  }

  // Wide and of nothing but narrow operands: `targets == iota`, a constant.
  bool is_worth_cloning(const Node& node) const {
    if (node.is("full")) return true;
    if (node.is("iota")) return node.attribute<int64_t>("axis") >= rank_of(node);
    if (!ops::has_trait(node, ops::kPointwise) && !node.is("expand")) return false;
    const ir::TensorType& type = node.types()[0];
    if (type.num_elements() == region_.num_rows) return false;
    return std::all_of(node.operands().begin(), node.operands().end(), [&](Value operand) {
      const RowUse use = row_use(operand.shape(), type.shape, rank_of(node));
      const bool is_narrow = operand.type().num_elements() <= region_.num_rows;
      if (use == RowUse::kPart) return false;
      return use == RowUse::kShared || is_narrow || is_worth_cloning(*operand.node);
    });
  }

  int rank_of(const Node& node) const { return *region_.row_rank(node.types()[0].shape); }

  // The node for the rows of this chunk.
  Value clone(const Node& node) {
    const int num_merged =  // row dims that become one
        *region_.row_rank(node.num_operands() == 0 ? node.types()[0].shape : rows_shape(node)) - 1;
    std::vector<Value> operands;
    for (Value operand : node.operands()) operands.push_back(operand_of(node, operand));
    enter(node);
    ir::Attributes attributes = node.attributes();
    const auto shift = [&](int64_t axis) { return std::max<int64_t>(axis - num_merged, 0); };
    if (attributes.contains("shape"))
      attributes["shape"] = chunk_shape(node.types()[0].shape).dims();
    const auto axis = attributes.find("axis");  // or that of a mesh
    if (axis != attributes.end() && std::holds_alternative<int64_t>(axis->second)) {
      axis->second = shift(std::get<int64_t>(axis->second));
    }
    if (attributes.contains("axes"))
      attributes["axes"] = merged(node.attribute<Axes>("axes"), shift);
    return build_.emit(node.op(), operands, attributes);
  }

  // The shape whose axes the attributes of a node count.
  static const Shape& rows_shape(const Node& node) {
    const bool by_result = ops::has_trait(node, ops::kPointwise) || node.is("expand");
    return by_result ? node.types()[0].shape : node.operand(0).shape();
  }

  template <typename Shift>
  static Axes merged(const Axes& axes, const Shift& shift) {
    Axes result;
    for (int64_t axis : axes) {
      if (std::find(result.begin(), result.end(), shift(axis)) == result.end()) {
        result.push_back(shift(axis));
      }
    }
    return result;
  }

  Value operand_of(const Node& node, Value operand) {
    if (node.is("matmul")) {  // rows times a matrix from outside
      return operand == node.operand(0) ? chunk_of(operand) : operand;
    }
    if (!ops::has_trait(node, ops::kPointwise) && !node.is("expand")) return chunk_of(operand);
    const Shape& shape = node.types()[0].shape;
    const int row_rank = rank_of(node);
    if (row_use(operand.shape(), shape, row_rank) == RowUse::kEachRow) return chunk_of(operand);
    // Without the row dims, which are ones.
    std::vector<int64_t> dims = operand.shape().dims();
    const auto num_columns = static_cast<size_t>(shape.rank() - row_rank);
    if (dims.size() > num_columns) dims.erase(dims.begin(), dims.end() - num_columns);
    return build_.reshape(operand, Shape(std::move(dims)));
  }

  const RowRegion& region_;
  ops::Builder build_;
  const int64_t count_, size_;
  int64_t chunk_ = 0;
  ir::ValueMap<Value> values_;  // of this chunk
  ir::ValueMap<std::vector<Value>> parts_;
  std::unordered_map<const Node*, Value> totals_;
  std::vector<Value> made_;  // what this chunk gives to the outside
  std::unordered_set<const Node*> narrowed_;
};

// A total that is widened again, perhaps as a view, was never to be narrowed.
void drop_round_trips(ir::Graph& graph, const std::unordered_set<const Node*>& narrowed) {
  if (narrowed.empty()) return;
  ops::Builder build(graph);
  ir::rewrite(graph, [&](Node& node) -> ir::Rewrite {
    if (!node.is("convert")) return ir::keep();
    std::vector<const Node*> views;
    const Node* source = node.operand(0).node;
    while (ops::has_trait(*source, ops::kViewLike) && source->num_operands() == 1 &&
           source->num_results() == 1) {
      views.push_back(source);
      source = source->operand(0).node;
    }
    if (!narrowed.contains(source)) return ir::keep();
    Value value = source->operand(0);
    if (value.dtype() != node.types()[0].dtype) return ir::keep();
    for (auto view = views.rbegin(); view != views.rend(); ++view) {
      value = build.emit((*view)->op(), {value}, (*view)->attributes());
    }
    return value;
  });
}

// Streams the graph back with chunks instead of the region: at the product's place, but after all
// that they read.
void replace(ir::Graph& graph, const RowRegion& region, int64_t num_chunks) {
  graph.renumber();
  std::unordered_set<const Node*> needed, inside(region.nodes.begin(), region.nodes.end());
  inside.insert(region.product);
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (!inside.contains(node->get()) && !needed.contains(node->get())) continue;
    for (Value operand : (*node)->operands()) needed.insert(operand.node);
  }
  std::vector<std::unique_ptr<Node>> nodes = graph.take_nodes(), dropped, later;
  for (auto& node : nodes) {
    const bool is_before = node->id() < region.product->id();
    if (inside.contains(node.get())) {
      dropped.push_back(std::move(node));
    } else if (is_before || needed.contains(node.get())) {
      graph.append(std::move(node));
    } else {
      later.push_back(std::move(node));
    }
  }
  Chunks chunks(graph, region, num_chunks);
  chunks.append();
  const ir::ValueMap<Value> replacements = chunks.replacements();
  for (auto& node : later) graph.append(std::move(node));
  graph.substitute(replacements);
  drop_round_trips(graph, chunks.narrowed());
  graph.renumber();
}

std::vector<Node*> wide_products(const ir::Graph& graph, int64_t chunk_bytes) {
  const auto live = analysis::live_nodes(graph);
  std::vector<Node*> wide;
  for (const auto& node : graph.nodes()) {
    const bool is_wide = node->is("matmul") && node->types()[0].num_bytes() > chunk_bytes;
    if (is_wide && node->phase() == ir::Phase::kForward && node->operand(1).shape().rank() == 2 &&
        live.contains(node.get())) {
      wide.push_back(node.get());
    }
  }
  return wide;
}

// Nodes that nobody needs would hold on to the logits.
bool drop_dead_nodes(ir::Graph& graph) {
  const auto live = analysis::live_nodes(graph);
  const int num_nodes = graph.num_nodes();
  graph.erase_if([&](const Node& node) { return !live.contains(&node); });
  graph.renumber();
  return graph.num_nodes() != num_nodes;
}

}  // namespace

bool chunk_loss_head(ir::Graph& graph, PassContext& context) {
  graph.renumber();
  const std::vector<Node*> heads = wide_products(graph, context.loss_chunk_bytes);
  if (heads.empty()) return false;
  const bool has_dead_nodes = drop_dead_nodes(graph);
  for (Node* head : heads) {
    std::string refusal;
    const std::optional<RowRegion> region = find_row_region(graph, *head, refusal);
    const int64_t num_chunks =
        region ? choose_num_chunks(head->types()[0], region->num_rows, context.loss_chunk_bytes)
               : 0;
    if (num_chunks == 0) {
      if (region) refusal = fmt::format("{} rows have no fitting divisor", region->num_rows);
      context.remark(*head, fmt::format("not done in chunks: {}", refusal));
      continue;
    }
    context.remark(
        *head, fmt::format("done in {} chunks of {} rows, with {} nodes that follow", num_chunks,
                           region->num_rows / num_chunks, region->nodes.size()));
    replace(graph, *region, num_chunks);
    return true;
  }
  return has_dead_nodes;
}

}  // namespace monograph::passes
