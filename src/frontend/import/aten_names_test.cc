#include "frontend/import/aten_names.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ops/registry.h"

namespace monograph::import {
namespace {

// The call_function targets of an archive, one a line, as extracted from its model.json.
std::vector<std::string> targets_of(const std::string& name) {
  std::ifstream file(std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<std::string> targets;
  for (std::string line; std::getline(file, line);) targets.push_back(line);
  return targets;
}

TEST(AtenNames, CoverTheExportedGpt2Layer) {
  const std::vector<std::string> targets = targets_of("gpt2layer_static_ops.txt");
  EXPECT_EQ(targets.size(), 11u);
  std::vector<std::string> not_covered;
  for (const std::string& target : targets) {
    if (find_aten_name(target) == nullptr) not_covered.push_back(target);
  }
  EXPECT_THAT(not_covered, testing::IsEmpty());
}

TEST(AtenNames, AreSortedAndLeadToRegisteredOps) {
  const auto names = aten_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const AtenName& each : names) {
    EXPECT_FALSE(each.nodes.empty()) << each.name;
    std::istringstream nodes{std::string(each.nodes)};
    for (std::string node; nodes >> node;) {
      EXPECT_NE(ops::find_op(node), nullptr) << each.name << " needs " << node;
    }
  }
  EXPECT_EQ(find_aten_name("aten.topk.default"), nullptr);
}

}  // namespace
}  // namespace monograph::import
