#include "verify/explain/drawing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/process.h"

namespace monograph::verify {
namespace {

constexpr size_t kMostOps = 30;  // characters of a line

struct Colours {
  const char* fill;
  const char* frame;
};

Colours colours_of(const std::string& phase) {
  if (phase == "forward") return {"#cfe3f7", "#3b74ad"};
  if (phase == "backward") return {"#fbdcc0", "#b8651b"};
  if (phase == "optimizer") return {"#d5ecd0", "#3f8a3a"};
  return {"#e6d7f1", "#7b4aa3"};
}

const char* device_colour(const std::string& device) {
  return device == "cpu" ? "#5a5a5a" : "#6a9a00";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// Lines of a label, broken at commas.
std::string wrapped(const std::string& ops) {
  std::string text;
  size_t width = 0;
  int lines = 1;
  for (size_t begin = 0; begin < ops.size();) {
    const size_t end = std::min(ops.find(',', begin), ops.size());
    if (width > 0 && width + end - begin > kMostOps) {
      if (++lines > 2) return text + "...";
      text += "\\n";
      width = 0;
    }
    text += ops.substr(begin, end - begin + 1);
    width += end - begin + 1;
    begin = end + 1;
  }
  return text;
}

std::string label_of(const FoldedStep& node) {
  std::string text = node.work;
  if (!node.ops.empty()) text += "\\n" + wrapped(node.ops);
  const size_t dot = node.scope.rfind(".*");
  const size_t begin = dot == std::string::npos ? 0 : std::min(dot + 3, node.scope.size());
  const std::string inner = node.scope.substr(begin);
  if (!inner.empty() && inner != "*") text += "\\n" + escaped(inner);
  return text;
}

// A node's cluster inside its phase: "h.*" of "h.*.attn.c_proj", else nothing.
std::string cluster_of(const FoldedStep& node) {
  const size_t star = node.scope.find('*');
  return star == std::string::npos ? "" : node.scope.substr(0, star + 1);
}

class Drawing {
 public:
  Drawing(const FoldedSteps& steps, std::string device)
      : steps_(steps), device_(std::move(device)) {}

  std::string run(const std::string& title) {
    text_ = fmt::format(
        "digraph step {{\n"
        "  graph [rankdir=TB, fontname=\"Helvetica\", fontsize=20, labelloc=t, label=\"{}\", "
        "nodesep=0.25, ranksep=0.35, newrank=true, splines=true]\n"
        "  node [fontname=\"Helvetica\", fontsize=11, style=\"filled\", penwidth=1.4, "
        "color=\"{}\", margin=\"0.12,0.06\"]\n"
        "  edge [color=\"#555555\", arrowsize=0.6]\n",
        escaped(title), device_colour(device_));
    for (const char* phase : {"forward", "backward", "communication", "optimizer"})
      add_phase(phase);
    for (const FoldedEdge& edge : steps_.edges) {
      if (!is_told_already(edge)) add_edge(edge);
    }
    add_legend();
    return text_ + "}\n";
  }

 private:
  void add_phase(const std::string& phase) {
    std::map<std::string, std::vector<int>> clusters;
    for (size_t i = 0; i < steps_.nodes.size(); ++i) {
      if (steps_.nodes[i].phase != phase) continue;
      clusters[cluster_of(steps_.nodes[i])].push_back(static_cast<int>(i));
    }
    if (clusters.empty()) return;
    const auto [fill, frame] = colours_of(phase);
    text_ += fmt::format(
        "  subgraph \"cluster {}\" {{\n    label=\"{}\"; fontsize=16; color=\"{}\"; "
        "fontcolor=\"{}\"; style=rounded;\n",
        phase, phase, frame, frame);
    for (const auto& [cluster, nodes] : clusters) {
      if (!cluster.empty()) add_cluster(phase, cluster, nodes);
      for (int node : nodes) add_node(node);
      if (!cluster.empty()) text_ += "    }\n";
    }
    text_ += "  }\n";
  }

  void add_cluster(const std::string& phase, const std::string& cluster,
                   const std::vector<int>& nodes) {
    std::vector<int> blocks;
    for (int node : nodes) {
      const std::vector<int>& of = steps_.nodes[node].blocks;
      blocks.insert(blocks.end(), of.begin(), of.end());
    }
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    num_blocks_[phase + cluster] = blocks.size();
    const std::string name = cluster.substr(0, cluster.find(".*"));
    const std::string note =
        blocks.size() == 1 ? "" : fmt::format(": {} blocks, drawn once", blocks.size());
    text_ += fmt::format(
        "    subgraph \"cluster {} {}\" {{\n      label=\"{}.{}{}\"; fontsize=13; "
        "style=\"rounded,dashed\"; color=\"#888888\"; fontcolor=\"#444444\";\n",
        phase, escaped(cluster), escaped(name), ranges_text(blocks), note);
  }

  void add_node(int index) {
    const FoldedStep& node = steps_.nodes[index];
    std::string label = label_of(node);
    const auto all = num_blocks_.find(node.phase + cluster_of(node));
    if (!node.blocks.empty() && node.blocks.size() != all->second) {
      label += fmt::format("\\nin block{} {}", node.blocks.size() == 1 ? "" : "s",
                           ranges_text(node.blocks));
    }
    const char* const shape = node.kind == FoldedStep::Kind::kKernel       ? "box"
                              : node.kind == FoldedStep::Kind::kCollective ? "hexagon"
                                                                           : "box";
    const char* const style = node.kind == FoldedStep::Kind::kKernel ? "filled,rounded" : "filled";
    text_ += fmt::format(
        "      n{} [label=\"{}\", shape={}, style=\"{}\", fillcolor=\"{}\", tooltip=\"{} {} {} "
        "({} a step)\"]\n",
        index, label, shape, style, colours_of(node.phase).fill, escaped(node.scope), node.place,
        escaped(node.ops), node.steps.size());
  }

  // A gradient goes to each step of the optimizer: its way to the first says enough.
  bool is_told_already(const FoldedEdge& edge) const {
    const auto is_optimizer = [&](int node) { return steps_.nodes[node].phase == "optimizer"; };
    if (is_optimizer(edge.from) || !is_optimizer(edge.to)) return false;
    return std::any_of(steps_.edges.begin(), steps_.edges.end(), [&](const FoldedEdge& other) {
      return other.from == edge.from && other.to < edge.to && is_optimizer(other.to);
    });
  }

  // Only edges inside a phase decide ranks; what is saved for another phase is drawn pale.
  void add_edge(const FoldedEdge& edge) {
    const FoldedStep& from = steps_.nodes[edge.from];
    const FoldedStep& to = steps_.nodes[edge.to];
    std::string style;
    if (from.phase == "forward" && to.phase == "backward") {
      style = " [color=\"#cccccc\", constraint=false]";
    } else if (edge.is_across_blocks) {
      style = " [style=dashed, constraint=false, color=\"#1f78b4\"]";
    } else if (from.phase != "optimizer" && to.phase == "optimizer") {
      style = " [color=\"#a5cf9e\"]";
    }
    text_ += fmt::format("  n{} -> n{}{}\n", edge.from, edge.to, style);
  }

  void add_legend() {
    text_ += fmt::format(
        "  subgraph \"cluster legend\" {{ label=\"\"; color=\"#dddddd\";\n"
        "    legend [shape=plain, style=\"\", label=<<table border=\"0\" cellspacing=\"4\">"
        "<tr><td align=\"left\">rounded: generated kernel</td></tr>"
        "<tr><td align=\"left\">square: library call; hexagon: collective</td></tr>"
        "<tr><td align=\"left\">frame: <font color=\"{}\">device {}</font></td></tr>"
        "<tr><td align=\"left\"><font color=\"#1f78b4\">dashed: to the next block</font></td></tr>"
        "<tr><td align=\"left\"><font color=\"#999999\">pale: saved for the backward pass</font>"
        "</td></tr><tr><td align=\"left\"><font color=\"#3f8a3a\">green: a gradient</font></td>"
        "</tr></table>>]\n  }}\n",
        device_colour(device_), device_);
  }

  const FoldedSteps& steps_;
  const std::string device_;
  std::string text_;
  std::map<std::string, size_t> num_blocks_;  // by phase and cluster
};

}  // namespace

std::string to_dot(const FoldedSteps& steps, const std::string& title, const std::string& device) {
  return Drawing(steps, device).run(title);
}

void write_svg(const std::string& dot, const std::string& path) {
  const std::string source = path + ".dot.partial", drawn = path + ".svg.partial";
  {
    std::ofstream file(source);
    file << dot;
    if (!file.flush()) {
      throw_user_error("cannot write '{}': give a path in a folder that you may write to", path);
    }
  }
  const ProcessResult result = run_processes({{"dot", "-Tsvg", "-o", drawn, source}})[0];
  unlink(source.c_str());
  if (!result.is_found) {
    throw_user_error(
        "drawing takes Graphviz's program 'dot', which cannot be run ({}): install "
        "the package graphviz",
        result.output);
  }
  if (!result.is_success() || rename(drawn.c_str(), path.c_str()) != 0) {
    unlink(drawn.c_str());
    throw_user_error("dot could not draw '{}' (exit status {}): {}", path, result.exit_status,
                     result.output);
  }
}

}  // namespace monograph::verify
