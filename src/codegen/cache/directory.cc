#include "codegen/cache/directory.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"

namespace monograph::codegen {
namespace {

namespace fs = std::filesystem;

const char* value_of(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

std::string expand_variables(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find("${", at);
    result += text.substr(at, begin - at);
    if (begin == std::string::npos) break;
    const size_t end = text.find('}', begin);
    if (end == std::string::npos) {
      throw_user_error("the folder '{}' has a '${{' without '}}': write ${{NAME}}", text);
    }
    const std::string inside = text.substr(begin + 2, end - begin - 2);
    const size_t word = inside.find(":-");
    const std::string name = inside.substr(0, word);
    const char* const value = value_of(name);
    if (value == nullptr && word == std::string::npos) {
      throw_user_error(
          "the folder '{}' needs the variable {}, which is not set: set it, or say what stands for "
          "it, ${{{}:-word}}",
          text, name, name);
    }
    result += value != nullptr ? value : inside.substr(word + 2);
    at = end + 1;
  }
  return result;
}

fs::path temporary_root() {
  const char* const set = value_of("TMPDIR");
  return set != nullptr ? set : "/tmp";
}

fs::path cache_directory(const std::string& given) {
  if (!given.empty()) return expand_variables(given);
  if (const char* own = value_of("MONOGRAPH_CACHE_DIR")) return expand_variables(own);
  if (const char* xdg = value_of("XDG_CACHE_HOME")) return fs::path(xdg) / "monograph";
  if (const char* home = value_of("HOME")) return fs::path(home) / ".cache" / "monograph";
  const passwd* const user = getpwuid(getuid());
  if (user != nullptr) return fs::path(user->pw_dir) / ".cache" / "monograph";
  return temporary_root() / fmt::format("monograph-{}", getuid());
}

}  // namespace monograph::codegen
