#pragma once

#include <cstdint>

namespace monograph::runtime {

// Stable counting sort of ids[0..num_positions): `order` becomes the positions sorted by id, and
// those of id v are order[offsets[v]] .. order[offsets[v + 1] - 1]. offsets: num_ids + 1 elements.
// UserError for an id outside 0..num_ids-1, that names it and its position.
void sort_ids(const int64_t* ids, int64_t num_positions, int64_t num_ids, int32_t* order,
              int32_t* offsets);
void sort_ids(const int32_t* ids, int64_t num_positions, int64_t num_ids, int32_t* order,
              int32_t* offsets);

}  // namespace monograph::runtime
