#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/session/monograph.h"

// Small programs with a planted fault each, and what must be said of it.
namespace monograph::zoo {

// What a person is told: a sentence that holds the place FILE:LINE, what is wrong and what to do.
using Findings = std::vector<std::string>;

// Runs a function as a user would, and gathers all that is reported about it: breaks, missed
// guards, dims that were specialised, parameters without gradient, impurities, and the error it
// ended with.
struct Examination {
  session::CompileOptions options = {};
  std::vector<std::vector<ir::Literal>> calls;  // the inputs of each
  std::function<void(size_t)> before_call = {};
};
Findings examine(const session::TracedFunction& function, const Examination& examination);

struct Program {
  std::string name;
  std::function<Findings()> run;
  int line = 0;  // of the fault; 0: it has none, as no line of the program is wrong
  std::vector<std::string> words;  // in the finding: what is wrong, and the advice
};

// The line of the source file that ends in "// fault: NAME"; the test fails where there is none.
int line_of(const std::string& file, const std::string& name);

std::vector<Program> break_programs();
std::vector<Program> guard_programs();
std::vector<Program> type_programs();
std::vector<Program> gradient_programs();
std::vector<Program> purity_programs();
std::vector<Program> placement_programs();

ir::Literal numbers(std::vector<int64_t> dims);
ir::Literal ids(std::vector<int64_t> dims);

}  // namespace monograph::zoo
