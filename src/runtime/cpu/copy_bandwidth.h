#pragma once

namespace monograph::runtime {

// Bytes a second that all cores together move (read + write) when they copy memory larger than any
// cache: what the report compares kernels with. Takes about 50 ms; best of several rounds.
double measure_copy_bandwidth();

}  // namespace monograph::runtime
