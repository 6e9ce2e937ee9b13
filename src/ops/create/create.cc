#include "ops/create/create.h"

namespace monograph::ops {

ir::Shape shape_attribute(const InferContext& context, const std::string& name) {
  ir::Shape shape(context.attribute<std::vector<int64_t>>(name));
  for (int64_t dim : shape.dims()) {
    if (dim < 0) context.fail("{} {} has a negative dim: give each dim", name, shape.str());
  }
  return shape;
}

}  // namespace monograph::ops
