#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace monograph::diagnose {

// One JSON document, parsed once, for reading a few fields. Keeps its buffers between documents.
// Missing fields and fields of another type give the default.
class JsonFields {
 public:
  JsonFields();
  ~JsonFields();
  JsonFields(const JsonFields&) = delete;
  JsonFields& operator=(const JsonFields&) = delete;

  // Returns whether `text` is valid JSON. The values below then are of this document.
  bool parse(std::string_view text);

  // A path of keys parted by '/': "artifact/name". "" is the document itself.
  std::string string(std::string_view path) const;
  double number(std::string_view path, double otherwise) const;
  std::int64_t integer(std::string_view path, std::int64_t otherwise) const;
  bool has(std::string_view path) const;

  // The strings of an array; a lone string counts as an array of one.
  std::vector<std::string> strings(std::string_view path) const;

  // Calls `visit` with each element of an array, which the other functions then read relative to.
  void for_each(std::string_view path, const std::function<void()>& visit);

  // As strings(), without copies: the views live until the next parse.
  void for_each_string(std::string_view path,
                       const std::function<void(std::string_view)>& visit) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace monograph::diagnose
