#include "diagnose/hang/wait_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "diagnose/svg.h"

namespace monograph::diagnose {
namespace {

constexpr int kBoxWidth = 150;
constexpr int kBoxHeight = 34;
constexpr int kColumn = 220;
constexpr int kRow = 52;
constexpr size_t kMaxBoxes = 60;

struct Box {
  std::set<int> ranks;
  std::set<int> waits_for;  // ranks
  std::set<size_t> targets;
  int column = 0;  // steps from the far end of the waiting
  int row = 0;
};

// Ranks with equal targets make one box.
std::vector<Box> make_boxes(const std::vector<WaitEdge>& edges) {
  std::map<int, std::set<int>> targets;
  for (const WaitEdge& edge : edges) {
    targets[edge.waiter].insert(edge.waited_on);
    targets[edge.waited_on];
  }
  std::map<std::set<int>, std::vector<int>> groups;
  for (const auto& [rank, waited_on] : targets) groups[waited_on].push_back(rank);
  std::vector<Box> boxes;
  std::map<int, size_t> box_of;
  for (const auto& [waited_on, ranks] : groups) {
    for (int rank : ranks) box_of[rank] = boxes.size();
    boxes.push_back({{ranks.begin(), ranks.end()}, waited_on, {}, 0, 0});
  }
  for (const auto& [rank, waited_on] : targets) {
    for (int target : waited_on) {
      if (box_of[target] != box_of[rank]) boxes[box_of[rank]].targets.insert(box_of[target]);
    }
  }
  return boxes;
}

// A box stands left of all that it waits for; rings stop growing after as many rounds as there are
// boxes.
void place(std::vector<Box>& boxes) {
  for (size_t round = 0; round < boxes.size(); ++round) {
    bool changed = false;
    for (Box& box : boxes) {
      for (size_t target : box.targets) {
        int column = std::min(boxes[target].column + 1, static_cast<int>(boxes.size()) - 1);
        if (column > box.column && column < 8) {
          box.column = column;
          changed = true;
        }
      }
    }
    if (!changed) break;
  }
  std::map<int, int> next_row;
  for (Box& box : boxes) box.row = next_row[box.column]++;
}

std::string title(const Box& box) {
  std::string ranks = rank_list(box.ranks);
  if (ranks.size() > 18)
    ranks = fmt::format("{} ranks from {}", box.ranks.size(), *box.ranks.begin());
  return (box.ranks.size() == 1 ? "rank " : "ranks ") + ranks;
}

std::string to_svg(const std::vector<Box>& boxes, const std::vector<int>& culprits) {
  int columns = 0;
  int rows = 0;
  for (const Box& box : boxes) {
    columns = std::max(columns, box.column + 1);
    rows = std::max(rows, box.row + 1);
  }
  auto x = [&](const Box& box) { return 10 + (columns - 1 - box.column) * kColumn; };
  auto y = [&](const Box& box) { return 10 + box.row * kRow; };
  Svg svg(columns * kColumn, rows * kRow + 10);
  for (const Box& box : boxes) {
    for (size_t target : box.targets) {
      const Box& to = boxes[target];
      int end_x = x(to);
      int end_y = y(to) + kBoxHeight / 2;
      svg.curve(x(box) + kBoxWidth, y(box) + kBoxHeight / 2, end_x, end_y, "#888", 1.4,
                fmt::format("{} wait for {}", title(box), title(to)));
      svg.line(end_x - 8, end_y - 4, end_x, end_y, "#888", 1.4);
      svg.line(end_x - 8, end_y + 4, end_x, end_y, "#888", 1.4);
    }
  }
  for (const Box& box : boxes) {
    bool guilty = std::binary_search(culprits.begin(), culprits.end(), *box.ranks.begin());
    svg.bar(x(box), y(box), kBoxWidth, kBoxHeight, guilty ? "#f4b9b2" : "#d7e2f0",
            "ranks " + rank_list(box.ranks));
    svg.text(x(box) + kBoxWidth / 2, y(box) + 22, title(box), 13, "middle");
  }
  return svg.finish();
}

}  // namespace

Figure draw_waits(const Hang& hang) {
  Figure figure;
  figure.title = "who waits for whom";
  std::vector<Box> boxes = make_boxes(hang.edges);
  place(boxes);
  std::vector<const Box*> by_column;
  for (const Box& box : boxes) by_column.push_back(&box);
  std::stable_sort(by_column.begin(), by_column.end(),
                   [](const Box* a, const Box* b) { return a->column > b->column; });
  size_t num_lines = 0;
  for (const Box* box : by_column) {
    if (box->waits_for.empty()) continue;
    if (++num_lines > 20) break;
    figure.text += fmt::format("{:>24} -> {}\n", title(*box), rank_list(box->waits_for));
  }
  if (boxes.size() <= kMaxBoxes) figure.svg = to_svg(boxes, hang.culprits);
  return figure;
}

}  // namespace monograph::diagnose
