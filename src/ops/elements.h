#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/literal.h"

// What the reference functions read and write literals by.
namespace monograph::ops {

// All elements in row-major order; T is double, or int64_t for a literal that is not floating.
template <typename T>
std::vector<T> read_elements(const ir::Literal& literal);

// The same, broadcast to `shape`.
template <typename T>
std::vector<T> read_broadcast(const ir::Literal& literal, const ir::Shape& shape);

// Stores all elements, rounded to the literal's dtype.
template <typename T>
void write_elements(const std::vector<T>& elements, ir::Literal& literal);

// offset + sum over axes of index * stride, for every index of `shape` in row-major order.
std::vector<int64_t> strided_positions(const ir::Shape& shape, std::span<const int64_t> strides,
                                       int64_t offset = 0);

// The row-major position in a tensor of shape `from` that each index of `to` reads by broadcasting.
std::vector<int64_t> broadcast_positions(const ir::Shape& from, const ir::Shape& to);

// result[i] = source[positions[i]], bit for bit.
void copy_from(const ir::Literal& source, const std::vector<int64_t>& positions,
               ir::Literal& result);
// result[positions[i]] = source[i], bit for bit.
void copy_to(const ir::Literal& source, const std::vector<int64_t>& positions, ir::Literal& result);

}  // namespace monograph::ops
