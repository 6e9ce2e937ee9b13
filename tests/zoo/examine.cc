#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "frontend/session/guards.h"
#include "program.h"
#include "verify/purity.h"

namespace monograph::zoo {
namespace {

std::string place(const ir::Provenance& at) {
  return at.file.empty() ? "" : fmt::format(" at {}:{}", at.file, at.line);
}

void examine_run(session::Compiled& step, const Examination& examination, Findings& findings) {
  for (size_t i = 0; i < examination.calls.size(); ++i) {
    if (examination.before_call) examination.before_call(i);
    step(examination.calls[i]);
    if (i == 0) {
      for (const trace::HostRead& read : step.breaks()) {
        findings.push_back(
            fmt::format("{}{}: {}", read.reason(), place(read.place), read.advice()));
      }
      for (const std::string& name : step.unused_parameters()) {
        findings.push_back(fmt::format("parameter '{}': the loss does not depend on it", name));
      }
    }
  }
  for (const session::GuardMiss& miss : step.guard_misses()) findings.push_back(miss.str());
  for (const std::string& each : step.specializations()) findings.push_back(each);
}

}  // namespace

Findings examine(const session::TracedFunction& function, const Examination& examination) {
  Findings findings;
  try {
    session::Session session({.seed = 1, .options = examination.options});
    session::Compiled step = session.compile_traced(function, examination.options);
    examine_run(step, examination, findings);
    std::vector<ir::TensorType> types;
    for (const ir::Literal& input : examination.calls[0]) types.push_back(input.type());
    for (const auto& each : verify::find_impurities(function, types, examination.options)) {
      findings.push_back(each.str());
    }
  } catch (const UserError& error) {
    findings.emplace_back(error.what());
  }
  return findings;
}

int line_of(const std::string& file, const std::string& name) {
  const auto name_of_file = std::filesystem::path(file).filename();
  std::ifstream source(std::filesystem::path(MONOGRAPH_SOURCE_DIR) / "tests/zoo" / name_of_file);
  const std::string mark = "// fault: " + name;
  int number = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.ends_with(mark)) return number;
  }
  throw_user_error("{} has no line that ends in '{}'", file, mark);
}

ir::Literal numbers(std::vector<int64_t> dims) {
  return ir::Literal::from({ir::DType::kF32, ir::Shape(std::move(dims))},
                           [](int64_t i) { return 0.25 * static_cast<double>(i % 9) - 0.7; });
}

ir::Literal ids(std::vector<int64_t> dims) {
  return ir::Literal::from({ir::DType::kI64, ir::Shape(std::move(dims))},
                           [](int64_t i) { return static_cast<double>((5 * i + i * i) % 13); });
}

}  // namespace monograph::zoo
