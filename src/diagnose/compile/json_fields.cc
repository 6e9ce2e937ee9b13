#include "diagnose/compile/json_fields.h"

#include <simdjson.h>

namespace monograph::diagnose {

namespace dom = simdjson::dom;

struct JsonFields::State {
  dom::parser parser;
  dom::element root;

  // The element at `path`; error if there is none.
  simdjson::simdjson_result<dom::element> at(std::string_view path) const {
    dom::element element = root;
    while (!path.empty()) {
      const std::size_t end = std::min(path.find('/'), path.size());
      const auto next = element[path.substr(0, end)];
      if (next.error() != simdjson::SUCCESS) return next.error();
      element = next.value_unsafe();
      path.remove_prefix(std::min(path.size(), end + 1));
    }
    return element;
  }
};

JsonFields::JsonFields() : state_(std::make_unique<State>()) {}
JsonFields::~JsonFields() = default;

bool JsonFields::parse(std::string_view text) {
  return state_->parser.parse(text.data(), text.size()).get(state_->root) == simdjson::SUCCESS;
}

std::string JsonFields::string(std::string_view path) const {
  std::string_view value;
  dom::element element;
  if (state_->at(path).get(element) != simdjson::SUCCESS) return {};
  if (element.get(value) != simdjson::SUCCESS) return {};
  return std::string(value);
}

double JsonFields::number(std::string_view path, double otherwise) const {
  dom::element element;
  double value = 0;
  if (state_->at(path).get(element) != simdjson::SUCCESS) return otherwise;
  return element.get(value) == simdjson::SUCCESS ? value : otherwise;
}

std::int64_t JsonFields::integer(std::string_view path, std::int64_t otherwise) const {
  dom::element element;
  std::int64_t value = 0;
  if (state_->at(path).get(element) != simdjson::SUCCESS) return otherwise;
  return element.get(value) == simdjson::SUCCESS ? value : otherwise;
}

bool JsonFields::has(std::string_view path) const {
  return state_->at(path).error() == simdjson::SUCCESS;
}

std::vector<std::string> JsonFields::strings(std::string_view path) const {
  std::vector<std::string> all;
  for_each_string(path, [&](std::string_view value) { all.emplace_back(value); });
  return all;
}

void JsonFields::for_each(std::string_view path, const std::function<void()>& visit) {
  dom::element element;
  dom::array array;
  if (state_->at(path).get(element) != simdjson::SUCCESS) return;
  if (element.get(array) != simdjson::SUCCESS) return;
  const dom::element root = state_->root;
  for (const dom::element one : array) {
    state_->root = one;
    visit();
  }
  state_->root = root;
}

void JsonFields::for_each_string(std::string_view path,
                                 const std::function<void(std::string_view)>& visit) const {
  dom::element element;
  if (state_->at(path).get(element) != simdjson::SUCCESS) return;
  std::string_view value;
  dom::array array;
  if (element.get(value) == simdjson::SUCCESS) {
    visit(value);
  } else if (element.get(array) == simdjson::SUCCESS) {
    for (const dom::element one : array) {
      if (one.get(value) == simdjson::SUCCESS) visit(value);
    }
  }
}

}  // namespace monograph::diagnose
