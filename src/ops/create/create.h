#pragma once

#include "ops/op_def.h"

namespace monograph::ops {

// Attribute `name` as a shape; refuses negative dims.
ir::Shape shape_attribute(const InferContext& context, const std::string& name);

}  // namespace monograph::ops
