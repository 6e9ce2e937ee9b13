#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "diagnose/compile/cause_graph.h"
#include "diagnose/compile/root_cause.h"
#include "diagnose/svg.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxRoots = 12, kMaxChains = 8, kMaxColumn = 24;

std::string_view word(CauseKind kind) {
  switch (kind) {
    case CauseKind::kFrame:
      return "frame";
    case CauseKind::kGuard:
      return "guard";
    case CauseKind::kChange:
      return "changed";
    case CauseKind::kBreak:
      return "break";
  }
  return "";
}

std::string weight_words(std::int64_t count, double seconds) {
  std::string text = fmt::format("{} recompile{}", count, count == 1 ? "" : "s");
  if (seconds > 0) text += fmt::format(", {:.1f} s", seconds);
  return text;
}

std::string full_label(const CauseNode& node) {
  std::string label = node.label;
  std::replace(label.begin(), label.end(), '\n', ' ');
  return node.place.empty() ? label : fmt::format("{} ({})", label, node.place);
}

// The text's first `columns` characters, counting code points.
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (seen++ == columns) return text.substr(0, i) + "…";
  }
  return text;
}

struct Box {
  double x = 0, y = 0;
  bool shown = false;
};

constexpr double kBoxWidth = 252, kBoxHeight = 38, kGap = 12, kBetween = 58, kTop = 26;

std::vector<Box> place_boxes(const CauseGraph& graph, double& height) {
  std::vector<Box> boxes(graph.nodes.size());
  height = kTop;
  for (int column = 0; column < 4; ++column) {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (static_cast<int>(graph.nodes[i].kind) == column) members.push_back(i);
    }
    std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
      return graph.nodes[a].count > graph.nodes[b].count;
    });
    if (members.size() > kMaxColumn) members.resize(kMaxColumn);
    double y = kTop;
    for (const std::size_t i : members) {
      boxes[i] = {4 + column * (kBoxWidth + kBetween), y, true};
      y += kBoxHeight + kGap;
    }
    height = std::max(height, y);
  }
  return boxes;
}

}  // namespace

std::string to_text(const CauseGraph& graph) {
  std::string text;
  for (std::size_t r = 0; r < graph.roots.size() && r < kMaxRoots; ++r) {
    const std::size_t root = graph.roots[r];
    const CauseNode& node = graph.nodes[root];
    text += fmt::format("  {:>2}. {:<8} {}   {}\n", r + 1, word(node.kind),
                        cut(full_label(node), 90), weight_words(node.count, node.seconds));
    std::size_t shown = 0;
    for (const CauseChain& chain : graph.chains) {
      if (!chain.passes(root)) continue;
      if (++shown > kMaxChains) {
        text += "      and more\n";
        break;
      }
      const CauseNode& other =
          node.kind == CauseKind::kBreak ? graph.nodes[chain.change] : graph.nodes[chain.guard];
      text += fmt::format("      {:>4} x {} <- {} {}", chain.count,
                          cut(full_label(graph.nodes[chain.frame]), 60), word(other.kind),
                          cut(full_label(other), 60));
      if (chain.earlier_break && node.kind != CauseKind::kBreak) {
        text += fmt::format(", split by the break at {}", graph.nodes[*chain.earlier_break].place);
      }
      text += '\n';
    }
  }
  return text;
}

std::string to_dot(const CauseGraph& graph) {
  const auto quoted = [](std::string text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '"' || text[at] == '\\') text.insert(at++, 1, '\\');
    }
    return text;
  };
  std::string dot = "digraph recompiles {\n  rankdir=LR; node [shape=box];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const CauseNode& node = graph.nodes[i];
    dot += fmt::format("  n{} [label=\"{}: {}\"];\n", i, word(node.kind), quoted(full_label(node)));
  }
  for (const CauseEdge& edge : graph.edges) {
    dot += fmt::format("  n{} -> n{} [label=\"{}\", weight={}];\n", edge.from, edge.to,
                       weight_words(edge.count, edge.seconds), edge.count);
  }
  return dot + "}\n";
}

std::string to_svg(const CauseGraph& graph) {
  double height = 0;
  const std::vector<Box> boxes = place_boxes(graph, height);
  Svg svg(4 * kBoxWidth + 3 * kBetween + 8, height + 4);
  constexpr std::array<const char*, 4> kTitles = {"frame", "failing guard", "what changed",
                                                  "earlier break"};
  constexpr std::array<const char*, 4> kFills = {"#dbe7f3", "#f7ead3", "#f5d9d3", "#e6dcef"};
  for (int column = 0; column < 4; ++column) {
    const bool is_used = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
      return static_cast<int>(node.kind) == column;
    });
    if (!is_used) continue;
    svg.text(4 + column * (kBoxWidth + kBetween), 16, kTitles[static_cast<std::size_t>(column)], 12,
             "start", "#666");
  }
  std::int64_t most = 1;
  for (const CauseEdge& edge : graph.edges) most = std::max(most, edge.count);
  for (const CauseEdge& edge : graph.edges) {
    const Box &from = boxes[edge.from], &to = boxes[edge.to];
    if (!from.shown || !to.shown) continue;
    const double width =
        1.5 + 8 * std::sqrt(static_cast<double>(edge.count) / static_cast<double>(most));
    svg.curve(from.x + kBoxWidth, from.y + kBoxHeight / 2, to.x, to.y + kBoxHeight / 2, "#8a97a3",
              width, weight_words(edge.count, edge.seconds));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!boxes[i].shown) continue;
    const CauseNode& node = graph.nodes[i];
    svg.bar(boxes[i].x, boxes[i].y, kBoxWidth, kBoxHeight,
            kFills[static_cast<std::size_t>(node.kind)], full_label(node));
    svg.text(boxes[i].x + 7, boxes[i].y + 16, cut(node.label, 39), 11.5);
    const std::string weight = weight_words(node.count, node.seconds);
    svg.text(boxes[i].x + 7, boxes[i].y + 31,
             node.place.empty() ? weight : fmt::format("{} · {}", cut(node.place, 20), weight),
             10.5, "start", "#555");
  }
  return svg.finish();
}

void add_root_cause_section(const CompileJob& job, Report& report) {
  const CauseGraph graph = build_cause_graph(job);
  if (graph.nodes.empty()) return;
  Section section;
  section.title = "Why functions recompiled";
  std::int64_t count = 0;
  double seconds = 0;
  for (const CauseNode& node : graph.nodes) {
    if (node.kind != CauseKind::kFrame) continue;
    count += node.count;
    seconds += node.seconds;
  }
  section.lines.push_back(weight_words(count, seconds) +
                          "; frame -> failing guard -> what changed -> earlier break");
  section.figures.push_back({"", to_text(graph), to_svg(graph), to_dot(graph)});
  report.statistics.push_back({"recompiles", count});
  report.sections.push_back(std::move(section));
}

}  // namespace monograph::diagnose
