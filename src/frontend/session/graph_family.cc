#include "frontend/session/graph_family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "compiler/pass_runner.h"

namespace monograph::session {

std::string Specialization::str() const {
  if (place.file.empty()) return what;
  return fmt::format("{}\n  at {}:{}{}{}", what, place.file, place.line,
                     place.scope.empty() ? "" : " in ", place.scope);
}

// A graph taken apart: what must be equal at all sizes, and the numbers, in order, with their
// nodes.
struct GraphFamily::Numbers {
  std::vector<std::string> structure;
  std::vector<ir::Provenance> places;
  std::vector<int64_t> numbers;
  std::vector<size_t> number_nodes;
  std::vector<double> reals;
  std::vector<size_t> real_nodes;

  explicit Numbers(const ir::Graph& graph) {
    for (const auto& node : graph.nodes()) add(*node);
    for (const ir::Graph::Output& output : graph.outputs()) {
      structure.push_back(fmt::format("output {} {}", output.name, text(output.value)));
      places.push_back(output.value.node->provenance());
    }
    for (const ir::Graph::Update& update : graph.updates()) {
      structure.push_back(fmt::format("update {} {}", update.state->name(), text(update.next)));
      places.push_back(update.next.node->provenance());
    }
  }

 private:
  static std::string text(ir::Value value) {
    return fmt::format("%{}.{}", value.node->id(), value.index);
  }

  void add(const ir::Node& node) {
    std::string text = fmt::format("{} {}", node.op(), node.name());
    for (const ir::Value operand : node.operands()) text += " " + this->text(operand);
    for (const ir::TensorType& type : node.types()) {
      text += fmt::format(" {}.{}", ir::dtype_name(type.dtype), type.shape.rank());
      for (const int64_t dim : type.shape.dims()) add_number(dim);
    }
    for (const auto& [name, attribute] : node.attributes()) {
      text += " " + name + attribute_text(attribute);
    }
    structure.push_back(std::move(text));
    places.push_back(node.provenance());
  }

  std::string attribute_text(const ir::Attribute& attribute) {
    if (const auto* number = std::get_if<int64_t>(&attribute)) add_number(*number);
    if (const auto* real = std::get_if<double>(&attribute)) {
      reals.push_back(*real);
      real_nodes.push_back(structure.size());
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) {
      for (const int64_t number : *list) add_number(number);
      return fmt::format(" {} numbers", list->size());
    }
    if (const auto* shapes = std::get_if<std::vector<ir::Shape>>(&attribute)) {
      std::string ranks;
      for (const ir::Shape& shape : *shapes) {
        for (const int64_t dim : shape.dims()) add_number(dim);
        ranks += fmt::format(" {}", shape.rank());
      }
      return ranks;
    }
    if (const auto* flag = std::get_if<bool>(&attribute)) return *flag ? " true" : " false";
    if (const auto* word = std::get_if<std::string>(&attribute)) return " " + *word;
    if (const auto* dtype = std::get_if<ir::DType>(&attribute)) {
      return fmt::format(" {}", ir::dtype_name(*dtype));
    }
    return "";
  }

  void add_number(int64_t number) {
    numbers.push_back(number);
    number_nodes.push_back(structure.size());
  }
};

namespace {

// The op of a structure's text, for people.
std::string word(const std::string& structure) {
  return structure.substr(0, structure.find(' '));
}

std::optional<Specialization> first_difference(const std::vector<std::string>& a,
                                               const std::vector<std::string>& b,
                                               const std::vector<ir::Provenance>& places) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    if (a[i] == b[i]) continue;
    return Specialization{
        fmt::format("{} at the largest sizes, {} at others", word(a[i]), word(b[i])), places[i]};
  }
  if (a.size() == b.size()) return std::nullopt;
  return Specialization{"more nodes at some sizes than at others", places[common - 1]};
}

// Copies a graph with other numbers, in the order in which Numbers takes them.
class NumberWriter {
 public:
  NumberWriter(const std::vector<ir::SizeNumber>& numbers, const std::vector<ir::SizeReal>& reals,
               const ir::SizeSteps& steps)
      : numbers_(numbers), reals_(reals), steps_(steps) {}

  std::unique_ptr<ir::Graph> run(const ir::Graph& graph) {
    auto copy = std::make_unique<ir::Graph>(graph.name());
    for (const auto& node : graph.nodes()) twins_[node.get()] = add(*node, *copy);
    for (const ir::Graph::Output& output : graph.outputs()) {
      copy->add_output(output.name, twin(output.value));
    }
    for (const ir::Graph::Update& update : graph.updates()) {
      copy->set_update(twins_.at(update.state), twin(update.next));
    }
    copy->renumber();
    return copy;
  }

 private:
  ir::Value twin(ir::Value value) const { return {twins_.at(value.node), value.index}; }

  ir::Node* add(const ir::Node& node, ir::Graph& copy) {
    std::vector<ir::Value> operands;
    for (const ir::Value operand : node.operands()) operands.push_back(twin(operand));
    std::vector<ir::TensorType> types = node.types();
    for (ir::TensorType& type : types) type.shape = next_shape(type.shape);
    ir::Attributes attributes = node.attributes();
    for (auto& [name, attribute] : attributes) write(attribute);
    ir::Node* made =
        copy.add(node.op(), std::move(operands), std::move(attributes), std::move(types));
    made->set_name(node.name());
    made->set_phase(node.phase());
    made->set_provenance(node.provenance());
    return made;
  }

  int64_t next_number() { return numbers_[num_numbers_++].at(steps_); }

  ir::Shape next_shape(const ir::Shape& shape) {
    std::vector<int64_t> dims(shape.dims().size());
    for (int64_t& dim : dims) dim = next_number();
    return ir::Shape(std::move(dims));
  }

  void write(ir::Attribute& attribute) {
    if (auto* number = std::get_if<int64_t>(&attribute)) *number = next_number();
    if (auto* real = std::get_if<double>(&attribute)) *real = reals_[num_reals_++].at(steps_);
    if (auto* list = std::get_if<std::vector<int64_t>>(&attribute)) {
      for (int64_t& number : *list) number = next_number();
    }
    if (auto* shapes = std::get_if<std::vector<ir::Shape>>(&attribute)) {
      for (ir::Shape& shape : *shapes) shape = next_shape(shape);
    }
  }

  const std::vector<ir::SizeNumber>& numbers_;
  const std::vector<ir::SizeReal>& reals_;
  const ir::SizeSteps& steps_;
  size_t num_numbers_ = 0, num_reals_ = 0;
  std::unordered_map<const ir::Node*, ir::Node*> twins_;
};

// Of the graph after the passes that keep numbers exactly.
Hash simplified_hash(const ir::Graph& graph) {
  std::vector<compiler::PipelineStep> steps;
  for (const compiler::PipelineStep& step : compiler::pipeline()) {
    if (step.name == "legalize_reductions") break;
    steps.push_back(step);
  }
  const auto copy = graph.clone();
  passes::PassContext context;
  compiler::run_passes(*copy, context, {}, steps);
  copy->renumber();
  return copy->hash();
}

}  // namespace

std::optional<GraphFamily> GraphFamily::fit(const ir::SizeGrid& grid,
                                            std::span<const ir::Graph* const> graphs,
                                            Specialization& why) {
  std::vector<Numbers> instances;
  for (const ir::Graph* graph : graphs) instances.emplace_back(*graph);
  GraphFamily family;
  const Numbers& largest = instances[0];
  for (const Numbers& each : instances) {
    if (auto found = first_difference(largest.structure, each.structure, largest.places)) {
      why = *found;
      return std::nullopt;
    }
  }
  const auto refuse = [&](double a, double b, size_t node) {
    why = {
        fmt::format("{} has the number {} at the largest sizes and {} at others, by no polynomial "
                    "of the sizes",
                    word(largest.structure[node]), a, b),
        largest.places[node]};
    return std::nullopt;
  };
  for (size_t i = 0; i < largest.numbers.size(); ++i) {
    std::vector<int64_t> values;
    for (const Numbers& each : instances) values.push_back(each.numbers[i]);
    const auto number = ir::SizeNumber::fit(grid, values);
    if (!number) {
      return refuse(static_cast<double>(values[0]), static_cast<double>(values[1]),
                    largest.number_nodes[i]);
    }
    family.numbers_.push_back(*number);
  }
  for (size_t i = 0; i < largest.reals.size(); ++i) {
    std::vector<double> values;
    for (const Numbers& each : instances) values.push_back(each.reals[i]);
    const auto real = ir::SizeReal::fit(grid, values);
    if (!real) return refuse(values[0], values[1], largest.real_nodes[i]);
    family.reals_.push_back(*real);
  }
  family.largest_ = graphs[0]->clone();
  family.structure_ = largest.structure;
  family.places_ = largest.places;
  return family;
}

// The graph of the largest sizes with the numbers of others.
std::unique_ptr<ir::Graph> GraphFamily::graph_at(const ir::SizeSteps& steps) const {
  return NumberWriter(numbers_, reals_, steps).run(*largest_);
}

std::optional<Specialization> GraphFamily::difference(const ir::Graph& graph,
                                                      const ir::SizeSteps& steps) const {
  const Numbers given(graph);
  if (auto found = first_difference(structure_, given.structure, places_)) {
    if (simplified_hash(graph) == simplified_hash(*graph_at(steps))) return std::nullopt;
    return found;
  }
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const int64_t expected = numbers_[i].at(steps);
    if (given.numbers[i] == expected) continue;
    const size_t node = given.number_nodes[i];
    return Specialization{fmt::format("{} has the number {} where other sizes make one expect {}",
                                      word(structure_[node]), given.numbers[i], expected),
                          places_[node]};
  }
  for (size_t i = 0; i < reals_.size(); ++i) {
    const double expected = reals_[i].at(steps);
    if (given.reals[i] == expected) continue;  // infinities, too
    const double off = std::abs(given.reals[i] - expected);
    if (std::isfinite(expected) && off <= 1e-9 * std::abs(expected)) continue;
    const size_t node = given.real_nodes[i];
    return Specialization{fmt::format("{} has the number {} where other sizes make one expect {}",
                                      word(structure_[node]), given.reals[i], expected),
                          places_[node]};
  }
  return std::nullopt;
}

}  // namespace monograph::session
