#pragma once

#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace monograph::ops {

// Appends nodes to a graph, inferring their types. New nodes get the builder's phase and
// provenance.
class Builder {
 public:
  explicit Builder(ir::Graph& graph) : graph_(graph) {}

  ir::Graph& graph() { return graph_; }
  void set_phase(ir::Phase phase) { phase_ = phase; }
  void set_provenance(ir::Provenance provenance) { provenance_ = std::move(provenance); }

  // UserError when the op refuses the operands or attributes.
  ir::Node* emit_node(std::string_view op, std::vector<ir::Value> operands,
                      ir::Attributes attributes = {});
  ir::Value emit(std::string_view op, std::vector<ir::Value> operands,
                 ir::Attributes attributes = {}) {
    return emit_node(op, std::move(operands), std::move(attributes))->result();
  }

  // A constant; rank 0 broadcasts against anything.
  ir::Value full(ir::TensorType type, double value);
  ir::Value scalar(ir::DType dtype, double value) { return full({dtype, {}}, value); }

  ir::Value add(ir::Value a, ir::Value b) { return emit("add", {a, b}); }
  ir::Value sub(ir::Value a, ir::Value b) { return emit("sub", {a, b}); }
  ir::Value mul(ir::Value a, ir::Value b) { return emit("mul", {a, b}); }
  ir::Value div(ir::Value a, ir::Value b) { return emit("div", {a, b}); }
  ir::Value add(ir::Value a, double b) { return add(a, scalar(a.dtype(), b)); }
  ir::Value mul(ir::Value a, double b) { return mul(a, scalar(a.dtype(), b)); }
  ir::Value neg(ir::Value a) { return emit("neg", {a}); }
  ir::Value where(ir::Value condition, ir::Value a, ir::Value b) {
    return emit("where", {condition, a, b});
  }
  ir::Value convert(ir::Value a, ir::DType dtype);
  ir::Value reshape(ir::Value a, ir::Shape shape);
  ir::Value permute(ir::Value a, std::vector<int64_t> axes);
  ir::Value expand(ir::Value a, ir::Shape shape);
  ir::Value sum(ir::Value a, std::vector<int64_t> axes, bool keepdim);
  ir::Value amax(ir::Value a, std::vector<int64_t> axes, bool keepdim);
  ir::Value matmul(ir::Value a, ir::Value b) { return emit("matmul", {a, b}); }
  ir::Value transpose_last(ir::Value a);  // swaps the last two axes
  // Sums a broadcast value back to the shape that it was broadcast from.
  ir::Value sum_to(ir::Value a, const ir::Shape& shape);

 private:
  ir::Graph& graph_;
  ir::Phase phase_ = ir::Phase::kForward;
  ir::Provenance provenance_;
};

}  // namespace monograph::ops
