#include "ir/mesh.h"

#include <gmock/gmock.h>

#include "base/message_of.h"

namespace monograph::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Mesh, GivesCoordinatesAndGroups) {
  const Mesh mesh({{"data", 2}, {"tensor", 3}});
  EXPECT_EQ(mesh.num_ranks(), 6);
  EXPECT_EQ(mesh.str(), "mesh(data=2, tensor=3)");
  EXPECT_THAT(mesh.coordinates(4), ElementsAre(1, 1));
  EXPECT_THAT(mesh.group("data", 4), ElementsAre(1, 4));
  EXPECT_THAT(mesh.group("tensor", 4), ElementsAre(3, 4, 5));
}

TEST(Mesh, StagesArePlacesOnAxisPp) {
  const Mesh mesh({{"dp", 2}, {"pp", 3}});
  EXPECT_TRUE(mesh.has_stages());
  EXPECT_EQ(mesh.stage(4), 1);
  EXPECT_THAT(mesh.ranks_of_stage(1), ElementsAre(1, 4));
  EXPECT_FALSE(Mesh({{"dp", 2}, {"pp", 1}}).has_stages());
  EXPECT_EQ(Mesh({{"dp", 2}}).stage(1), 0);
  EXPECT_THAT(Mesh({{"dp", 2}}).ranks_of_stage(0), ElementsAre(0, 1));
}

TEST(Mesh, EveryRankIsInItsGroupAtItsCoordinate) {
  const Mesh mesh({{"a", 2}, {"b", 3}, {"c", 2}});
  for (int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const std::vector<int64_t> coordinates = mesh.coordinates(rank);
    for (size_t i = 0; i < coordinates.size(); ++i) {
      EXPECT_EQ(mesh.group(mesh.axes()[i].name, rank)[coordinates[i]], rank);
    }
  }
}

TEST(Mesh, WithoutAxesIsOneRank) {
  EXPECT_EQ(Mesh().num_ranks(), 1);
  EXPECT_TRUE(Mesh().coordinates(0).empty());
}

TEST(Mesh, NamesWhatIsWrong) {
  const Mesh mesh({{"dp", 2}});
  EXPECT_THAT(message_of([&] { mesh.size("tp"); }),
              HasSubstr("'tp' is not an axis of mesh(dp=2): use 'dp'"));
  EXPECT_THAT(message_of([&] { mesh.coordinates(2); }), HasSubstr("rank 2 is not in mesh(dp=2)"));
  EXPECT_THAT(message_of([] { Mesh({{"a", 2}, {"a", 3}}); }), HasSubstr("'a' stands twice"));
  EXPECT_THAT(message_of([] { Mesh({{"a", 0}}); }), HasSubstr("mesh axis 'a' of size 0"));
}

}  // namespace
}  // namespace monograph::ir
