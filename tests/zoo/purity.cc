#include <chrono>
#include <fstream>
#include <random>

#include "program.h"

namespace monograph::zoo {
namespace {

template <typename Function>
std::function<Findings()> on_rows(Function function) {
  return [=] {
    return examine(session::traced_function(function),
                   {.options = {.backend = "interpret"}, .calls = {{numbers({4, 3})}}});
  };
}

Program host_counter() {
  const auto count = std::make_shared<int>(0);
  return {"a counter in the function",
          on_rows([=](const Tensor& x) {
            return sum(x * static_cast<double>(++*count));  // fault: host_counter
          }),
          line_of(__FILE__, "host_counter"),
          {"captured twice", "keep it in a State"}};
}

Program clock() {
  return {"the time of day in the function",
          on_rows([](const Tensor& x) {
            const auto now = std::chrono::system_clock::now().time_since_epoch();
            return sum(x + static_cast<double>(now.count()));  // fault: clock
          }),
          line_of(__FILE__, "clock"),
          {"captured twice", "give it as an input"}};
}

Program host_random() {
  const auto generator = std::make_shared<std::mt19937>(1);
  return {"random numbers of the host",
          on_rows([=](const Tensor& x) {
            return sum(x * std::uniform_real_distribution<>()(*generator));  // fault: host_random
          }),
          line_of(__FILE__, "host_random"),
          {"captured twice", "random_uniform()"}};
}

Program file_output() {
  return {"a file written in the function",
          on_rows([](const Tensor& x) {
            const Tensor y = x * 2.0;
            std::ofstream("/dev/null") << "x";
            return sum(y);  // fault: file_output
          }),
          line_of(__FILE__, "file_output"),
          {"output of 1 bytes", "print it after the step"}};
}

}  // namespace

std::vector<Program> purity_programs() {
  return {host_counter(), clock(), host_random(), file_output()};
}

}  // namespace monograph::zoo
