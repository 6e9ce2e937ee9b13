#include "ir/printer.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "ir/lexer.h"

namespace monograph::ir {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string word_or_quoted(const std::string& text) {
  return is_word(text) ? text : quoted(text);
}

std::string real_text(double value) {
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    const auto usual = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
    return bits == usual ? "nan" : fmt::format("nan({:#x})", bits);
  }
  std::string text = fmt::format("{}", value);  // the shortest that reads back to the same bits
  // "1" would read back as an integer.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string shapes_text(const std::vector<Shape>& shapes) {
  std::string text = "(";
  for (const Shape& shape : shapes) text += (text.size() > 1 ? ", " : "") + shape.str();
  return text + ")";
}

std::string attributes_text(const Attributes& attributes) {
  if (attributes.empty()) return "";
  std::string text;
  for (const auto& [name, attribute] : attributes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_text(attribute));
  }
  return " {" + text + "}";
}

std::string comment_text(const Provenance& provenance) {
  std::string text;
  if (!provenance.file.empty()) text = fmt::format(" {}:{}", provenance.file, provenance.line);
  if (!provenance.scope.empty()) text += " in " + provenance.scope;
  if (provenance.frame > 0) {
    text += fmt::format("{} frame {}", text.empty() ? "" : ",", provenance.frame);
  }
  return text.empty() ? "" : "  //" + text;
}

class GraphPrinter {
 public:
  explicit GraphPrinter(PrintOptions options) : options_(options) {}

  // The lines between the braces.
  void print_body(const Graph& graph, int depth) {
    const ValueNames names(graph);
    const std::string indent(2 * depth, ' ');
    for (const auto& node : graph.nodes()) {
      out_ += indent + to_text(*node, names);
      if (node->body() != nullptr) {
        out_ += fmt::format(" @{} {{", word_or_quoted(node->body()->name()));
      }
      if (options_.provenance) out_ += comment_text(node->provenance());
      out_ += '\n';
      if (node->body() != nullptr) {
        print_body(*node->body(), depth + 1);
        out_ += indent + "}\n";
      }
    }
    print_roots(graph, names, indent);
  }

  std::string print(const Graph& graph) {
    out_ = fmt::format("graph @{} {{\n", word_or_quoted(graph.name()));
    print_body(graph, 1);
    return out_ + "}\n";
  }

 private:
  void print_roots(const Graph& graph, const ValueNames& names, const std::string& indent) {
    std::string outputs;
    for (const Graph::Output& output : graph.outputs()) {
      if (!outputs.empty()) outputs += ", ";
      if (!output.name.empty()) outputs += word_or_quoted(output.name) + "=";
      outputs += names(output.value);
    }
    if (!outputs.empty()) out_ += indent + "return " + outputs + "\n";
    for (const Graph::Update& update : graph.updates()) {
      out_ +=
          fmt::format("{}update {} = {}\n", indent, names({update.state, 0}), names(update.next));
    }
  }

  PrintOptions options_;
  std::string out_;
};

}  // namespace

ValueNames::ValueNames(const Graph& graph) {
  std::unordered_set<std::string> taken;
  int next = 0;
  for (const auto& node : graph.nodes()) {
    if (node->is("input") && node->num_results() == 1 && is_word(node->name()) &&
        taken.insert(node->name()).second) {
      words_.emplace(node.get(), node->name());
    } else {
      first_numbers_.emplace(node.get(), next);
      next += node->num_results();
    }
  }
}

std::string ValueNames::operator()(Value value) const {
  if (const auto word = words_.find(value.node); word != words_.end()) return "%" + word->second;
  const auto number = first_numbers_.find(value.node);
  if (number == first_numbers_.end()) return "%?";
  if (value.index < 0 || value.index >= value.node->num_results()) {
    return fmt::format("%{}.{}?", number->second, value.index);
  }
  return fmt::format("%{}", number->second + value.index);
}

std::string to_text(const Attribute& attribute) {
  struct {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return real_text(number); }
    std::string operator()(const std::string& text) const { return quoted(text); }
    std::string operator()(const std::vector<int64_t>& numbers) const {
      return fmt::format("[{}]", fmt::join(numbers, ","));
    }
    std::string operator()(DType dtype) const { return std::string(dtype_name(dtype)); }
    std::string operator()(const std::vector<Shape>& shapes) const { return shapes_text(shapes); }
  } text_of;
  return std::visit(text_of, attribute);
}

std::string to_text(const Node& node, const ValueNames& names) {
  std::string text;
  if (node.phase() != Phase::kForward) text = fmt::format("{} ", phase_name(node.phase()));
  for (int i = 0; i < node.num_results(); ++i) {
    // Naming a result changes nothing; Value has no const form.
    text += (i > 0 ? ", " : "") + names({const_cast<Node*>(&node), i});
  }
  text += " = " + node.op();
  if (node.is_placeholder()) {
    text += " " + quoted(node.name());
  } else {
    std::string operands;
    for (const Value operand : node.operands()) {
      operands += (operands.empty() ? "" : ", ") + names(operand);
    }
    text += "(" + operands + ")";
  }
  text += attributes_text(node.attributes()) + " :";
  for (int i = 0; i < node.num_results(); ++i) text += (i > 0 ? ", " : " ") + node.types()[i].str();
  return text;
}

std::string to_text(const Graph& graph, PrintOptions options) {
  return GraphPrinter(options).print(graph);
}

}  // namespace monograph::ir
