#pragma once

#include "diagnose/compile/job.h"
#include "diagnose/compile/json_fields.h"

namespace monograph::diagnose {

// Reads the document of an inductor_runtime_and_tensor_meta artifact: what each kernel of a graph
// writes, and how long Inductor expects it to take. rank, compile_id and function stay unset.
TensorMeta parse_tensor_meta(JsonFields& fields);

// Findings about kernels of equal graphs that write other shapes or dtypes on some ranks, and about
// ranks whose kernels are expected to take longer.
void compare_tensor_meta(const CompileJob& job, Report& report);

}  // namespace monograph::diagnose
