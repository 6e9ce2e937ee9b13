#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace monograph::codegen {

// Lines of C++ with indentation by braces.
class SourceWriter {
 public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(indent_, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  // A line that is not indented: a pragma.
  void pragma(const std::string& text) { text_ += "#pragma " + text + "\n"; }
  // A line that ends in "{".
  template <typename... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line(format, std::forward<Args>(args)...);
    indent_ += 2;
  }
  void close() {
    indent_ -= 2;
    line("}}");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  size_t indent_ = 0;
};

}  // namespace monograph::codegen
