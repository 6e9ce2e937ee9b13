#include "verify/explain/provenance.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "verify/explain/step_nodes.h"

namespace monograph::verify {
namespace {

using compiler::LineageNode;
using compiler::LineageStep;

const std::vector<LineageStep>& lineage_of(const compiler::Compilation& compilation) {
  check(!compilation.lineage.empty(), "compiled without CompileOptions::records_lineage");
  return compilation.lineage;
}

std::string place_of(const ir::Provenance& place) {
  if (place.file.empty()) return "";
  return fmt::format("{}:{}", std::filesystem::path(place.file).filename().string(), place.line);
}

bool is_below(std::string_view scope, std::string_view above) {
  return scope.starts_with(above) && (scope.size() == above.size() || scope[above.size()] == '.');
}

std::string_view value_of(const LineageNode& node) {
  return std::string_view(node.text).substr(0, node.text.find(" = "));
}

bool is_named(const LineageNode& node, std::string_view name) {
  if (name.starts_with('%')) {
    for (std::string_view rest = value_of(node); !rest.empty();) {
      const size_t comma = rest.find(", ");
      if (rest.substr(0, comma) == name) return true;
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 2);
    }
    return false;
  }
  const bool is_placeholder = node.op == "input" || node.op == "state";
  if (is_placeholder) return node.text.find(fmt::format("\"{}\"", name)) != std::string::npos;
  return node.op == name || place_of(node.provenance) == name ||
         is_below(node.provenance.scope, name);
}

// The text without the numbers of values, which every pass gives anew.
std::string shape_of(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] != '%') continue;
    while (i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
  }
  return result;
}

bool has_users(const LineageStep& step, int node) {
  return std::any_of(step.nodes.begin(), step.nodes.end(), [&](const LineageNode& user) {
    return std::find(user.operands.begin(), user.operands.end(), node) != user.operands.end();
  });
}

// By node after a pass: whether it leads to anything. Passes leave nodes without users behind.
std::vector<bool> alive_nodes(const LineageStep& before, const LineageStep& after) {
  std::vector<bool> was_read(before.nodes.size(), false), is_alive(after.nodes.size(), false),
      is_read(after.nodes.size(), false);
  for (const LineageNode& node : before.nodes) {
    for (int operand : node.operands) was_read[operand] = true;
  }
  for (const LineageNode& node : after.nodes) {
    for (int operand : node.operands) is_read[operand] = true;
  }
  for (size_t i = after.nodes.size(); i-- > 0;) {  // users stand behind what they read
    const int origin = after.nodes[i].origin;
    const bool was_root = origin < 0 || !was_read[origin];
    // Nobody reads a body's result in the body.
    if (!is_read[i] && (was_root || after.nodes[i].inside >= 0)) is_alive[i] = true;
    if (!is_alive[i]) continue;
    for (int operand : after.nodes[i].operands) is_alive[operand] = true;
  }
  return is_alive;
}

// What a pass made of several nodes has the origin of the last of them alone: a bucket that of the
// packing. The others led to that one, nothing reads them any more, and their operands are read by
// what was made.
class Absorbed {
 public:
  Absorbed(const LineageStep& before, const LineageStep& after, const std::vector<bool>& is_alive,
           int made)
      : before_(before), after_(after), is_alive_(is_alive), made_(made) {
    const int origin = after.nodes[made].origin;
    if (origin < 0) return;
    for (int operand : before.nodes[origin].operands) visit(operand);
  }

  std::set<int> nodes;  // of the list before

 private:
  // Whether the node, which leads to the origin, is one of them.
  bool visit(int node) {
    if (nodes.contains(node)) return true;
    const LineageNode& was = before_.nodes[node];
    if (was.operands.empty() || is_still_read(node)) return false;
    bool is_absorbed = false;
    for (int operand : was.operands) {
      const bool is_absorbed_above = visit(operand);
      is_absorbed = is_absorbed || is_absorbed_above || is_read_by_made(operand);
    }
    if (is_absorbed) nodes.insert(node);
    return is_absorbed;
  }

  bool is_still_read(int node) const {
    for (size_t i = 0; i < after_.nodes.size(); ++i) {
      if (after_.nodes[i].origin == node && is_alive_[i]) return true;
    }
    return false;
  }

  bool is_read_by_made(int operand) const {
    const std::vector<int>& read = after_.nodes[made_].operands;
    return std::any_of(read.begin(), read.end(),
                       [&](int other) { return after_.nodes[other].origin == operand; });
  }

  const LineageStep& before_;
  const LineageStep& after_;
  const std::vector<bool>& is_alive_;
  const int made_;
};

// Follows one node forward, a pass at a time.
class Walk {
 public:
  Walk(const compiler::Compilation& compilation, int traced)
      : steps_(lineage_of(compilation)), now_{traced} {
    const LineageNode& node = steps_[0].nodes[traced];
    line("trace", node.text);
    if (!node.provenance.scope.empty()) line("", "in " + node.provenance.scope);
    if (!node.provenance.file.empty()) line("", "from " + place_of(node.provenance));
    for (at_ = 1; at_ < steps_.size() && !now_.empty(); ++at_) go();
  }

  std::string text;
  const std::vector<int>& last() const { return now_; }

 private:
  const LineageStep& before() const { return steps_[at_ - 1]; }
  const LineageStep& after() const { return steps_[at_]; }

  void line(std::string_view pass, const std::string& what) {
    text += fmt::format("  {:<22} {}\n", pass, what);
  }

  void go() {
    std::vector<int> next;
    is_alive_ = alive_nodes(before(), after());
    for (int node : now_) {
      const std::vector<int> became = descendants(node);
      next.insert(next.end(), became.begin(), became.end());
      const bool is_read = std::any_of(became.begin(), became.end(), [&](int other) {
        return has_users(after(), other) && is_alive_[other];
      });
      if (is_read || (!became.empty() && !has_users(before(), node))) continue;
      const std::vector<int> others = replacements(node), makers = absorbers(node);
      next.insert(next.end(), others.begin(), others.end());
      next.insert(next.end(), makers.begin(), makers.end());
      for (int other : makers) line(after().pass, "in " + after().nodes[other].text);
      if (makers.empty()) replaced(node, became.empty());
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    show_changes(next);
    now_ = std::move(next);
  }

  std::vector<int> descendants(int node) const {
    std::vector<int> result;
    for (size_t i = 0; i < after().nodes.size(); ++i) {
      if (after().nodes[i].origin == node) result.push_back(static_cast<int>(i));
    }
    return result;
  }

  // What the users of a node that is gone read now.
  std::vector<int> replacements(int node) const {
    std::set<int> result;
    for (const LineageNode& user : after().nodes) {
      if (user.origin < 0) continue;
      const LineageNode& was = before().nodes[user.origin];
      if (was.op != user.op || was.operands.size() != user.operands.size()) continue;
      for (size_t i = 0; i < was.operands.size(); ++i) {
        if (was.operands[i] == node) result.insert(user.operands[i]);
      }
    }
    return {result.begin(), result.end()};
  }

  // What stands for the node and for those after it.
  std::vector<int> absorbers(int node) const {
    std::vector<int> result;
    for (size_t i = 0; i < after().nodes.size(); ++i) {
      const int origin = after().nodes[i].origin;
      const bool is_made = origin > node && after().nodes[i].op != before().nodes[origin].op;
      if (!is_made) continue;
      if (Absorbed(before(), after(), is_alive_, static_cast<int>(i)).nodes.contains(node)) {
        result.push_back(static_cast<int>(i));
      }
    }
    return result;
  }

  // What read the node reads something else now, or is gone as well.
  void replaced(int node, bool is_gone) {
    const std::vector<int> others = replacements(node);
    for (int other : others) line(after().pass, "replaced by " + after().nodes[other].text);
    if (!others.empty() || !is_gone) return;
    line(after().pass,
         has_users(before(), node) ? "gone, with what read it" : "gone: nothing read it");
  }

  void show_changes(const std::vector<int>& next) {
    for (int node : next) {
      const LineageNode& now = after().nodes[node];
      const bool is_same = now.origin >= 0 &&
                           shape_of(before().nodes[now.origin].text) == shape_of(now.text) &&
                           (before().nodes[now.origin].inside < 0) == (now.inside < 0);
      const bool was_followed = std::find(now_.begin(), now_.end(), now.origin) != now_.end();
      if (is_same || !was_followed || now.op == "fused") continue;  // what is inside says more
      const std::string where =
          now.inside < 0 ? "" : fmt::format("  inside {}", value_of(after().nodes[now.inside]));
      line(after().pass, now.text + where);
    }
  }

  const std::vector<LineageStep>& steps_;
  size_t at_ = 1;
  std::vector<int> now_;
  std::vector<bool> is_alive_;
};

// By number in the last graph: the step that the node, or the fused node that holds it, became.
std::vector<int> steps_by_node(const compiler::Compilation& compilation) {
  const std::vector<LineageNode>& nodes = lineage_of(compilation).back().nodes;
  std::vector<int> steps(nodes.size(), -1);
  const auto& graph = compilation.graph->nodes();
  size_t top = 0;
  int step = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].inside >= 0) {
      steps[i] = steps[nodes[i].inside];
    } else if (is_step(*graph[top++])) {
      steps[i] = step++;
    }
  }
  return steps;
}

// The steps that read a node of the last graph which is none itself: a state, an input, a view.
std::set<int> readers_of(const compiler::Compilation& compilation, const std::vector<int>& nodes) {
  const std::vector<LineageNode>& last = lineage_of(compilation).back().nodes;
  const std::vector<int> steps = steps_by_node(compilation);
  std::set<int> seen(nodes.begin(), nodes.end()), readers;
  for (size_t i = 0; i < last.size(); ++i) {  // operands stand before their users
    const bool reads = std::any_of(last[i].operands.begin(), last[i].operands.end(),
                                   [&](int operand) { return seen.contains(operand); });
    if (!reads || last[i].inside >= 0) continue;
    if (steps[i] >= 0) {
      readers.insert(steps[i]);
    } else {
      seen.insert(static_cast<int>(i));
    }
  }
  return readers;
}

}  // namespace

std::vector<int> find_traced(const compiler::Compilation& compilation, std::string_view name) {
  const std::vector<LineageNode>& nodes = lineage_of(compilation)[0].nodes;
  std::vector<int> found;
  std::set<std::string> scopes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (is_named(nodes[i], name)) found.push_back(static_cast<int>(i));
    if (!nodes[i].provenance.scope.empty()) scopes.insert(nodes[i].provenance.scope);
  }
  if (!found.empty()) return found;
  std::string some;
  for (const std::string& scope : scopes) {
    if (some.size() < 120) some += (some.empty() ? "" : ", ") + scope;
  }
  throw_user_error(
      "no traced node is '{}': use a value (%0 to %{}), an op, a source location (gpt.cc:88), the "
      "name of an input or state, or a scope: {}, ...",
      name, nodes.size() - 1, some);
}

std::string path_of(const compiler::Compilation& compilation, int traced) {
  Walk walk(compilation, traced);
  const std::vector<int> steps = steps_by_node(compilation);
  std::set<int> reached;
  for (int node : walk.last()) {
    if (steps[node] >= 0) reached.insert(steps[node]);
  }
  const bool is_done = !reached.empty();
  if (!is_done) reached = readers_of(compilation, walk.last());
  const std::vector<StepNode> nodes = step_nodes(compilation);
  for (int step : reached) {
    const ir::Step& each = compilation.program.steps[step];
    walk.text +=
        fmt::format("  {:<22} {} step {}: {}  {}\n", "program", is_done ? "done in" : "read in",
                    step, work_of(each, *nodes[step].node), each.name);
  }
  if (reached.empty()) walk.text += fmt::format("  {:<22} no step needs it\n", "program");
  return walk.text;
}

std::vector<int> steps_of(const compiler::Compilation& compilation, int traced) {
  const std::vector<int> steps = steps_by_node(compilation);
  std::set<int> reached;
  const Walk walk(compilation, traced);
  for (int node : walk.last()) {
    if (steps[node] >= 0) reached.insert(steps[node]);
  }
  return {reached.begin(), reached.end()};
}

std::vector<int> origins_of_step(const compiler::Compilation& compilation, int step) {
  const std::vector<LineageStep>& lineage = lineage_of(compilation);
  const std::vector<int> steps = steps_by_node(compilation);
  std::set<int> traced;
  for (size_t i = 0; i < steps.size(); ++i) {
    const LineageNode& node = lineage.back().nodes[i];
    if (steps[i] != step || node.op == "fused" || node.op == "input") continue;
    std::set<int> at = {static_cast<int>(i)};
    for (size_t pass = lineage.size() - 1; pass > 0; --pass) {
      const LineageStep &before = lineage[pass - 1], &after = lineage[pass];
      std::set<int> origins;
      for (int made : at) {
        const LineageNode& now = after.nodes[made];
        if (now.origin < 0) continue;
        origins.insert(now.origin);
        if (now.op == before.nodes[now.origin].op) continue;
        origins.merge(Absorbed(before, after, alive_nodes(before, after), made).nodes);
      }
      at = std::move(origins);
    }
    traced.merge(at);
  }
  return {traced.begin(), traced.end()};
}

std::string describe_traced(const compiler::Compilation& compilation, int traced) {
  const LineageNode& node = lineage_of(compilation)[0].nodes[traced];
  return fmt::format("{:<52} {:<20} {}", node.text, node.provenance.scope,
                     place_of(node.provenance));
}

}  // namespace monograph::verify
