#include "verify/purity.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "ir/printer.h"

namespace monograph::verify {
namespace {

struct IoCounters {
  int64_t read = 0, written = 0;  // bytes
};

// Bytes that this process has read and written, less what reading the counters took.
class IoWatch {
 public:
  IoWatch() : file_(open("/proc/self/io", O_RDONLY | O_CLOEXEC)) {}
  ~IoWatch() {
    if (file_ >= 0) close(file_);
  }
  IoWatch(const IoWatch&) = delete;

  std::optional<IoCounters> now() {
    if (file_ < 0) return std::nullopt;
    std::fflush(nullptr);  // what was printed before counts before
    std::array<char, 512> text = {};
    const ssize_t length = pread(file_, text.data(), text.size() - 1, 0);
    const char* const read = std::strstr(text.data(), "rchar: ");
    const char* const written = std::strstr(text.data(), "wchar: ");
    if (length <= 0 || read == nullptr || written == nullptr) return std::nullopt;
    const IoCounters counters{std::atoll(read + 7) - own_, std::atoll(written + 7)};
    own_ += length;
    return counters;
  }

 private:
  int file_;
  int64_t own_ = 0;
};

using Report = std::function<void(Impurity)>;

// Watches one capture.
class IoObserver {
 public:
  explicit IoObserver(Report report) : report_(std::move(report)), last_(watch_.now()) {}

  void look(const ir::Provenance& place) {
    const std::optional<IoCounters> now = watch_.now();
    if (!now || !last_) return;
    say("output", now->written - last_->written, "return the tensor and print it after the step",
        place);
    say("input", now->read - last_->read, "read it before, and give it to the step as an input",
        place);
    last_ = now;
    before_ = place;
  }

 private:
  void say(const char* what, int64_t num_bytes, const char* advice, const ir::Provenance& place) {
    if (num_bytes <= 0) return;
    const std::string since =
        before_.file.empty() ? "the beginning" : fmt::format("{}:{}", before_.file, before_.line);
    report_(
        {fmt::format("{} of {} bytes while the function was captured, after {}: it happens once "
                     "a capture, not once a step: {}",
                     what, num_bytes, since, advice),
         place});
  }

  IoWatch watch_;
  Report report_;
  std::optional<IoCounters> last_;
  ir::Provenance before_;
};

trace::HostValue zeros(const trace::HostRead& read) {
  trace::HostValue value;
  for (const ir::Node* result : read.results) value.literals.emplace_back(result->types()[0]);
  return value;
}

std::unique_ptr<ir::Graph> capture(const session::TracedFunction& function,
                                   const std::vector<ir::TensorType>& inputs,
                                   const session::CompileOptions& options,
                                   const trace::Trace::NodeObserver& observer) {
  const std::shared_ptr<trace::Trace> traced = trace::Trace::create();
  traced->set_precision({.compute = ir::parse_dtype(options.precision),
                         .residual = ir::parse_dtype(options.residual)});
  traced->set_host_reader(zeros);
  traced->set_host_ops(options.host_ops);
  traced->set_observer(observer);
  std::vector<trace::Tensor> tensors;
  for (const ir::TensorType& type : inputs) {
    tensors.push_back(traced->input(fmt::format("input{}", tensors.size()), type));
  }
  return traced->finish(function.call(tensors));
}

// What is different, in words; empty when nothing is.
std::string difference(const ir::Node& a, const ir::Node& b) {
  if (a.op() != b.op()) return fmt::format("{} the first time, {} the second", a.op(), b.op());
  if (a.types() != b.types()) {
    return fmt::format("{} of type {}, then {}", a.op(), a.types()[0].str(), b.types()[0].str());
  }
  if (a.attributes() == b.attributes() && a.name() == b.name()) return "";
  if (a.is("full")) {
    return fmt::format("the number {}, then {}", a.attribute<double>("value"),
                       b.attribute<double>("value"));
  }
  return fmt::format("{} with other attributes", a.op());
}

std::optional<Impurity> first_difference(const ir::Graph& a, const ir::Graph& b) {
  const std::string advice =
      ": the function reads something that changes (a counter, a clock, random numbers): give it "
      "as "
      "an input, keep it in a State, or draw with random_uniform()";
  const auto same_operands = [](const ir::Node& x, const ir::Node& y) {
    if (x.num_operands() != y.num_operands()) return false;
    for (int i = 0; i < x.num_operands(); ++i) {
      if (x.operand(i).node->id() != y.operand(i).node->id()) return false;
      if (x.operand(i).index != y.operand(i).index) return false;
    }
    return true;
  };
  const int common = std::min(a.num_nodes(), b.num_nodes());
  for (int i = 0; i < common; ++i) {
    const ir::Node &x = *a.nodes()[i], &y = *b.nodes()[i];
    std::string what = difference(x, y);
    if (what.empty() && !same_operands(x, y)) what = x.op() + " of other operands";
    if (!what.empty()) return Impurity{"captured twice: " + what + advice, x.provenance()};
  }
  if (a.num_nodes() == b.num_nodes()) return std::nullopt;
  const ir::Graph& longer = a.num_nodes() > b.num_nodes() ? a : b;
  return Impurity{
      fmt::format("captured twice: {} nodes, then {}{}", a.num_nodes(), b.num_nodes(), advice),
      longer.nodes()[common]->provenance()};
}

}  // namespace

std::string Impurity::str() const {
  return fmt::format("C12 {}\n      at {}:{}{}{}", what, place.file, place.line,
                     place.scope.empty() ? "" : " in ", place.scope);
}

std::vector<Impurity> find_impurities(const session::TracedFunction& function,
                                      const std::vector<ir::TensorType>& inputs,
                                      const session::CompileOptions& options) {
  std::vector<Impurity> found;
  IoObserver io([&](Impurity impurity) { found.push_back(std::move(impurity)); });
  const auto first =
      capture(function, inputs, options, [&](const ir::Node& node) { io.look(node.provenance()); });
  if (first->num_nodes() > 0) io.look(first->nodes().back()->provenance());
  const auto second = capture(function, inputs, options, nullptr);
  if (auto difference = first_difference(*first, *second)) found.push_back(std::move(*difference));
  return found;
}

}  // namespace monograph::verify
