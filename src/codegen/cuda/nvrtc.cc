#include "codegen/cuda/nvrtc.h"

#include <charconv>
#include <sstream>

#include "base/error.h"

namespace monograph::codegen::cuda {
namespace {

// As in nvrtc.h, unchanged since version 11.1.
struct Program;
using Result = int;
constexpr Result kSuccess = 0;
using ErrorText = const char*(Result);
using Version = Result(int* major, int* minor);
using Create = Result(Program** program, const char* source, const char* name, int num_headers,
                      const char* const* headers, const char* const* include_names);
using Destroy = Result(Program** program);
using Compile = Result(Program* program, int num_options, const char* const* options);
using Size = Result(Program* program, size_t* size);
using Bytes = Result(Program* program, char* bytes);

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The number before `unit`: 12 in "..., 12 bytes spill stores".
int64_t number_before(const std::string& line, const std::string& unit) {
  const size_t end = line.find(unit);
  if (end == std::string::npos) return 0;
  const size_t begin = line.find_last_not_of("0123456789", end - 1) + 1;
  int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

std::string text_of(const DynamicLibrary& library, Program* program, const char* size_name,
                    const char* name) {
  size_t size = 0;
  if (library.function<Size>(size_name)(program, &size) != kSuccess) return "";
  std::string text(size, '\0');
  if (library.function<Bytes>(name)(program, text.data()) != kSuccess) return "";
  return text;
}

}  // namespace

Nvrtc::Nvrtc()
    : library_("CUDA kernels are compiled by NVRTC",
               cuda_library_candidates({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}),
               "install the CUDA toolkit (or pip's nvidia-cuda-nvrtc), and set CUDA_HOME or "
               "LD_LIBRARY_PATH to where it lies") {}

bool Nvrtc::is_available() {
  try {
    const Nvrtc nvrtc;
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  library_.function<Version>("nvrtcVersion")(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

Cubin Nvrtc::compile(const std::string& source, const std::string& name,
                     const std::vector<std::string>& options) const {
  Program* program = nullptr;
  const auto describe = library_.function<ErrorText>("nvrtcGetErrorString");
  const Result created = library_.function<Create>("nvrtcCreateProgram")(
      &program, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  check(created == kSuccess, "NVRTC makes no program: {}", describe(created));
  std::vector<const char*> texts;
  for (const std::string& option : options) texts.push_back(option.c_str());
  const Result result = library_.function<Compile>("nvrtcCompileProgram")(
      program, static_cast<int>(texts.size()), texts.data());
  std::string log = text_of(library_, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
  while (!log.empty() && log.back() == '\0') log.pop_back();
  Cubin cubin;
  if (result == kSuccess) {
    cubin.bytes = text_of(library_, program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN");
    cubin.functions = function_uses(log);
  }
  library_.function<Destroy>("nvrtcDestroyProgram")(&program);
  if (result != kSuccess || cubin.bytes.empty()) {
    throw_internal_error("NVRTC {} refused generated code ({}):\n{}", version(), describe(result),
                         log_with_source(log, source));
  }
  return cubin;
}

std::vector<FunctionUse> function_uses(const std::string& log) {
  std::vector<FunctionUse> uses;
  for (const std::string& line : lines_of(log)) {
    const std::string entry = "Compiling entry function '";
    const size_t begin = line.find(entry);
    if (begin != std::string::npos) {
      const size_t name = begin + entry.size();
      uses.push_back({line.substr(name, line.find('\'', name) - name), 0, 0, 0, 0});
    }
    if (uses.empty()) continue;
    FunctionUse& use = uses.back();
    use.stack_bytes += number_before(line, " bytes stack frame");
    use.spilled_bytes +=
        number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    if (line.find("Used ") == std::string::npos) continue;
    use.registers = static_cast<int>(number_before(line, " registers"));
    use.shared_bytes = number_before(line, " bytes smem");
  }
  return uses;
}

std::string log_with_source(const std::string& log, const std::string& source) {
  const std::vector<std::string> code = lines_of(source);
  std::string result;
  for (const std::string& line : lines_of(log)) {
    result += line + "\n";
    const size_t open = line.find('('), close = line.find("): ");
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    size_t number = 0;
    const auto end = line.data() + close;
    const auto parsed = std::from_chars(line.data() + open + 1, end, number);
    const bool is_place = parsed.ptr == end && number >= 1 && number <= code.size();
    if (is_place) result += fmt::format("{:>6} | {}\n", number, code[number - 1]);
  }
  return result;
}

}  // namespace monograph::codegen::cuda
