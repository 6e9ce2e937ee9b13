#pragma once

#include <string_view>

// States that are not a model's, by name. A place on the mesh: kCoordinatePrefix (mesh.h).
namespace monograph::ir {

inline constexpr std::string_view kSeedName = "rng.seed";  // i64[]: of random numbers
inline constexpr std::string_view kStepName = "step";      // i64[]: steps done

// Of compressed gradients (passes::compress_exchange), before the name of the gradient.
inline constexpr std::string_view kExchangePrefix = "exchange.";
// What this rank has not sent yet; each rank has its own.
inline constexpr std::string_view kResidualPrefix = "exchange.residual.";
// The right factor of the step before, where the next one begins; all ranks have the same.
inline constexpr std::string_view kFactorPrefix = "exchange.factor.";
// Which elements this rank has sent, i32; for those who watch.
inline constexpr std::string_view kIndicesPrefix = "exchange.indices.";

}  // namespace monograph::ir
