#include "passes/memory/offsets.h"

#include <gtest/gtest.h>

#include <random>

namespace monograph::passes {
namespace {

std::vector<Lifetime> parts_of(const Lifetime& buffer) {
  if (buffer.parts.empty()) return {buffer};
  std::vector<Lifetime> parts;
  for (const auto& part : buffer.parts)
    parts.push_back({part.num_bytes, part.begin, buffer.end, {}});
  return parts;
}

void expect_apart(const Lifetime& a, int64_t offset_a, const Lifetime& b, int64_t offset_b) {
  const bool together = a.begin <= b.end && b.begin <= a.end;
  const bool apart = offset_a + a.num_bytes <= offset_b || offset_b + b.num_bytes <= offset_a;
  EXPECT_TRUE(!together || apart) << offset_a << " and " << offset_b << " overlap";
}

int64_t offset_of_part(const Lifetime& buffer, size_t part) {
  return buffer.parts.empty() ? 0 : buffer.parts[part].offset;
}

void expect_sound(const std::vector<Lifetime>& buffers, const OffsetPlan& plan) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_LE(plan.offsets[i] + buffers[i].num_bytes, plan.peak_bytes);
    for (size_t j = 0; j < i; ++j) {
      const auto parts_i = parts_of(buffers[i]), parts_j = parts_of(buffers[j]);
      for (size_t a = 0; a < parts_i.size(); ++a) {
        for (size_t b = 0; b < parts_j.size(); ++b) {
          expect_apart(parts_i[a], plan.offsets[i] + offset_of_part(buffers[i], a), parts_j[b],
                       plan.offsets[j] + offset_of_part(buffers[j], b));
        }
      }
    }
  }
}

TEST(Offsets, BuffersOfDifferentTimesShareMemory) {
  const std::vector<Lifetime> buffers = {{100, 0, 1}, {100, 2, 3}, {50, 1, 2}};
  const OffsetPlan plan = assign_offsets(buffers);
  expect_sound(buffers, plan);
  EXPECT_EQ(plan.bound_bytes, 150);
  EXPECT_EQ(plan.peak_bytes, 150);
}

// What a backward pass does: gradients come as activations go.
TEST(Offsets, PartsThatBeginLaterLieOverWhatEndsBefore) {
  std::vector<Lifetime> buffers;
  constexpr int kLayers = 12;
  Lifetime gradients{100 * kLayers, kLayers, 3 * kLayers, {}};
  for (int layer = 0; layer < kLayers; ++layer) {
    const int backward = 2 * kLayers - layer;
    buffers.push_back({100, layer, backward, {}});
    gradients.parts.push_back({100 * (kLayers - 1 - layer), 100, backward});
  }
  buffers.push_back(gradients);
  const OffsetPlan plan = assign_offsets(buffers);
  expect_sound(buffers, plan);
  EXPECT_EQ(plan.bound_bytes, 100 * (kLayers + 1));
  EXPECT_EQ(plan.peak_bytes, plan.bound_bytes);
}

TEST(Offsets, StaysNearTheBoundOnRandomLifetimes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 120; ++i) {
      const int begin = static_cast<int>(random() % 200);
      buffers.push_back({static_cast<int64_t>(256 * (1 + random() % 64)), begin,
                         begin + static_cast<int>(random() % 30)});
    }
    const OffsetPlan plan = assign_offsets(buffers);
    expect_sound(buffers, plan);
    EXPECT_LE(plan.peak_bytes, plan.bound_bytes * 1.15);
  }
}

}  // namespace
}  // namespace monograph::passes
