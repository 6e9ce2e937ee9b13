#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace monograph::passes {

// What follows from a product row by row. Rows are the leading dims of the product's shape, taken
// together: a shape has rows if a prefix of its dims multiplies to their number.
struct RowRegion {
  enum class Role {
    kRow,         // its leading dims are the rows; row i depends on row i of what it reads
    kTransposed,  // [columns, rows]: a view for a product over the rows
    kRowProduct,  // rows times a matrix from outside: leaves the region
    kTotal,       // a sum over all rows, or a product over them: leaves the region
  };

  ir::Node* product = nullptr;
  int64_t num_rows = 0;
  std::unordered_map<const ir::Node*, Role> roles;
  std::vector<ir::Node*> nodes;    // in graph order, without the product
  std::vector<ir::Value> leaving;  // row values, narrow, that nodes outside read

  // The number of leading dims that make up the rows; none where the shape has no rows.
  std::optional<int> row_rank(const ir::Shape& shape) const;
  bool has_rows(ir::Value value) const;  // the product's result, or made by a kRow node
};

// The region of a matmul with a rank-2 right operand; none, and why in `refusal`, where a wide
// value is read by something that is not row-wise, or depends on a sum over the rows.
std::optional<RowRegion> find_row_region(const ir::Graph& graph, ir::Node& product,
                                         std::string& refusal);

// How an operand of a row-wise pointwise node with a result of shape `result` meets its rows.
enum class RowUse {
  kEachRow,  // it has the rows
  kShared,   // every row reads the same elements
  kPart,     // it is broadcast over some row dims only
};
RowUse row_use(const ir::Shape& operand, const ir::Shape& result, int row_rank);

}  // namespace monograph::passes
