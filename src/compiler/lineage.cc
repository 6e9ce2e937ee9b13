#include "compiler/lineage.h"

#include <unordered_map>

#include "ir/printer.h"

namespace monograph::compiler {
namespace {

struct Place {
  ir::Node* node;
  int inside;
  std::string text;
};

void list(const ir::Graph& graph, int inside, bool with_text, std::vector<Place>& places) {
  const ir::ValueNames names(graph);
  for (const auto& node : graph.nodes()) {
    places.push_back({node.get(), inside, with_text ? ir::to_text(*node, names) : ""});
    const int at = static_cast<int>(places.size()) - 1;
    if (node->body() != nullptr) list(*node->body(), at, with_text, places);
  }
}

std::vector<Place> places_of(const ir::Graph& graph, bool with_text) {
  std::vector<Place> places;
  list(graph, -1, with_text, places);
  return places;
}

std::vector<LineageNode> record(const std::vector<Place>& places, const std::vector<int>& origins) {
  std::unordered_map<const ir::Node*, int> numbers;
  std::vector<LineageNode> nodes;
  for (const Place& place : places) {
    const int at = static_cast<int>(nodes.size());
    numbers[place.node] = at;
    nodes.push_back({.text = place.text,
                     .op = place.node->op(),
                     .origin = origins.empty() ? -1 : origins[at],
                     .inside = place.inside,
                     .phase = place.node->phase(),
                     .provenance = place.node->provenance()});
    for (ir::Value operand : place.node->operands()) {
      nodes.back().operands.push_back(numbers.at(operand.node));
    }
  }
  return nodes;
}

}  // namespace

LineageRecorder::LineageRecorder(const ir::Graph& traced) {
  steps_.push_back({"trace", record(places_of(traced, true), {})});
}

void LineageRecorder::begin(ir::Graph& graph) {
  before_.clear();
  for (const Place& place : places_of(graph, false)) {
    ir::Provenance numbered = place.node->provenance();
    before_.push_back(numbered);
    numbered.line = static_cast<int>(before_.size());  // from 1: new nodes have 0
    place.node->set_provenance(std::move(numbered));
  }
}

void LineageRecorder::end(ir::Graph& graph, std::string pass, bool has_changed) {
  std::vector<int> origins;
  const std::vector<Place> places = places_of(graph, has_changed);
  for (const Place& place : places) {
    origins.push_back(place.node->provenance().line - 1);
    if (origins.back() >= 0) place.node->set_provenance(before_[origins.back()]);
  }
  if (has_changed) steps_.push_back({std::move(pass), record(places, origins)});
}

}  // namespace monograph::compiler
