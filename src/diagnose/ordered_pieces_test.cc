#include "diagnose/ordered_pieces.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace monograph::diagnose {
namespace {

// Pieces are the numbers below `count`; two stages write down what they see.
struct Numbers {
  std::vector<int> slots;
  std::vector<int> first, second;
  int next = 0;
  PieceWork work;

  Numbers(int count, unsigned num_threads) : slots(num_threads) {
    work.take = [this, count](unsigned slot) {
      slots[slot] = next;
      return next++ < count;
    };
    work.work = [this](unsigned slot) { slots[slot] *= 2; };
    work.stages = {[this](unsigned slot) { first.push_back(slots[slot]); },
                   [this](unsigned slot) { second.push_back(slots[slot] + 1); }};
  }
};

TEST(OrderedPieces, EachStageSeesAllPiecesInOrder) {
  for (const unsigned num_threads : {1u, 2u, 5u}) {
    Numbers numbers(1000, num_threads);
    run_in_order(numbers.work, num_threads);
    ASSERT_EQ(numbers.first.size(), 1000u);
    ASSERT_EQ(numbers.second.size(), 1000u);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(numbers.first[static_cast<std::size_t>(i)], 2 * i);
      EXPECT_EQ(numbers.second[static_cast<std::size_t>(i)], 2 * i + 1);
    }
  }
}

TEST(OrderedPieces, ThrowsWhatAnyPartThrew) {
  for (const unsigned num_threads : {1u, 3u}) {
    for (int part = 0; part < 3; ++part) {
      Numbers numbers(1000, num_threads);
      const auto fail = [&](unsigned slot) {
        if (numbers.slots[slot] >= 100) throw std::runtime_error("part " + std::to_string(part));
      };
      if (part == 0) {
        numbers.work.take = [&, inner = numbers.work.take](unsigned slot) {
          const bool more = inner(slot);
          fail(slot);
          return more;
        };
      } else if (part == 1) {
        numbers.work.work = fail;
      } else {
        numbers.work.stages.emplace_back(fail);
      }
      try {
        run_in_order(numbers.work, num_threads);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "part " + std::to_string(part));
      }
    }
  }
}

TEST(OrderedPieces, AnEmptyStreamReachesNoStage) {
  Numbers numbers(0, 4);
  run_in_order(numbers.work, 4);
  EXPECT_TRUE(numbers.first.empty());
}

}  // namespace
}  // namespace monograph::diagnose
