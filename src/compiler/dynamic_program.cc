#include "compiler/dynamic_program.h"

#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "compiler/assign_memory.h"
#include "compiler/compile_unplaced.h"
#include "compiler/program_numbers.h"

namespace monograph::compiler {
namespace {

using ir::Address;
using ir::Segment;

// What an address lies in: a scratch buffer, an input or an output; else its segment as it is. The
// rest of it, the bytes inside, may depend on the sizes; where such a thing begins does not.
struct Anchor {
  Segment segment = Segment::kScratch;
  int number = -1;
  int64_t inside = 0;
};

int tensor_at(const std::vector<ir::ProgramTensor>& tensors, const Address& address) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t inside = address.offset - tensors[i].address.offset;
    if (inside >= 0 && inside < std::max<int64_t>(1, tensors[i].type.num_bytes())) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Anchor anchor_of(const ir::Program& program, const Address& address) {
  if (address.segment == Segment::kScratch) {
    return {address.segment, buffer_of(address), bytes_in_buffer(address)};
  }
  const bool is_input = address.segment == Segment::kInput;
  if (!is_input && address.segment != Segment::kOutput)
    return {address.segment, -1, address.offset};
  const auto& tensors = is_input ? program.inputs : program.outputs;
  const int number = tensor_at(tensors, address);
  check(number >= 0, "an address {}+{} in no tensor", ir::segment_name(address.segment),
        address.offset);
  return {address.segment, number, address.offset - tensors[number].address.offset};
}

std::vector<Anchor> anchors_of(ir::Program& program) {
  std::vector<Anchor> anchors;
  for (ir::Step& step : program.steps) {
    for_each_address(step,
                     [&](Address& address) { anchors.push_back(anchor_of(program, address)); });
  }
  return anchors;
}

std::vector<int64_t> numbers_of(ir::Program& program) {
  std::vector<int64_t> numbers;
  for_each_number(program, [&](int64_t& number) { numbers.push_back(number); });
  return numbers;
}

std::vector<const ir::Loop*> loops_of(const ir::Program& program) {
  std::vector<const ir::Loop*> loops;
  for (const ir::Step& step : program.steps) {
    const auto* kernel = std::get_if<ir::KernelStep>(&step.work);
    if (kernel != nullptr) loops.push_back(&program.kernels[kernel->kernel]);
  }
  return loops;
}

// A number that depends on the sizes, by its place among all.
struct Dependent {
  size_t place;
  ir::SizeNumber number;
};

// Gives the next one its value at these sizes, if `place` is its own.
void set_number(const std::vector<Dependent>& numbers, const ir::SizeSteps& steps, size_t place,
                size_t& next, int64_t& number) {
  if (next == numbers.size() || numbers[next].place != place) return;
  number = numbers[next++].number.at(steps);
}

// What depends on the sizes in the Loop of one launch.
struct LoopNumbers {
  std::vector<Dependent> numbers;                          // of for_each_number
  std::vector<std::pair<size_t, ir::SizeReal>> constants;  // by instruction

  void set(ir::Loop& loop, const ir::SizeSteps& steps) const {
    size_t place = 0, next = 0;
    for_each_number(loop,
                    [&](int64_t& number) { set_number(numbers, steps, place++, next, number); });
    for (const auto& [id, real] : constants) loop.instructions[id].value = real.at(steps);
  }
};

}  // namespace

struct DynamicProgram::Numbers {
  std::vector<Dependent> numbers;  // of for_each_number
  std::vector<Dependent> inside;   // bytes of addresses inside what they lie in
  std::vector<LoopNumbers> loops;  // one a KernelStep
};

namespace {

class DynamicCompiler {
 public:
  DynamicCompiler(const ir::SizeGrid& grid, std::string& why) : grid_(grid), why_(why) {}

  std::shared_ptr<DynamicProgram> run(std::span<const ir::Graph* const> traced,
                                      passes::StateLayout& states, PassOptions options) {
    options.loss_chunk_bytes = std::numeric_limits<int64_t>::max();
    std::vector<passes::LayoutBuffer> buffers;
    for (const ir::Graph* graph : traced) {
      std::vector<passes::LayoutBuffer> own;
      const ir::Program* like = instances_.empty() ? nullptr : &instances_[0].program;
      instances_.push_back(compile_unplaced(*graph, states, options, like, own));
      if (instances_.size() == 1) buffers = own;
      keep_whole_where_parts_move(own, buffers);
      if (!has_equal_structure()) return nullptr;
    }
    auto result = std::make_shared<DynamicProgram>();
    auto numbers = std::make_shared<DynamicProgram::Numbers>();
    if (!fit_numbers(numbers->numbers) || !fit_addresses(numbers->inside)) return nullptr;
    if (!make_kernels(result->kernels, numbers->loops)) return nullptr;
    result->numbers = std::move(numbers);
    result->largest = std::move(instances_[0]);
    result->largest.scratch = assign_memory(result->largest.program, buffers);
    return result;
  }

 private:
  // The last instance and the first one: the same steps but for numbers.
  bool has_equal_structure() {
    const std::vector<std::string> last = structure_of(instances_.back().program);
    const std::vector<std::string> first = structure_of(instances_[0].program);
    const auto [a, b] = std::mismatch(first.begin(), first.end(), last.begin(), last.end());
    if (a == first.end() && b == last.end()) return true;
    why_ =
        fmt::format("passes make another program of it: '{}' at the largest sizes, '{}' at others",
                    a == first.end() ? "" : *a, b == last.end() ? "" : *b);
    return false;
  }

  // Memory is planned for the largest sizes. A part of a buffer that lies elsewhere at other sizes
  // may not begin to live after the rest.
  static void keep_whole_where_parts_move(const std::vector<passes::LayoutBuffer>& own,
                                          std::vector<passes::LayoutBuffer>& buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (i >= own.size() || own[i].parts != buffers[i].parts) buffers[i].parts.clear();
    }
  }

  bool fit_all(const std::vector<std::vector<int64_t>>& lists, std::vector<Dependent>& found,
               std::string_view what) {
    for (size_t place = 0; place < lists[0].size(); ++place) {
      std::vector<int64_t> values;
      for (const auto& list : lists) {
        if (list.size() != lists[0].size()) return false;
        values.push_back(list[place]);
      }
      const auto number = ir::SizeNumber::fit(grid_, values);
      if (!number) {
        why_ = fmt::format("{} is {} at one size and {} at another, by no polynomial of the sizes",
                           what, values[0], values[1]);
        return false;
      }
      if (!number->is_constant()) found.push_back({place, *number});
    }
    return true;
  }

  bool fit_numbers(std::vector<Dependent>& found) {
    std::vector<std::vector<int64_t>> lists;
    for (Compilation& each : instances_) lists.push_back(numbers_of(each.program));
    return fit_all(lists, found, "a number of a library call");
  }

  bool fit_addresses(std::vector<Dependent>& found) {
    std::vector<std::vector<int64_t>> lists;
    const std::vector<Anchor> largest = anchors_of(instances_[0].program);
    for (Compilation& each : instances_) {
      std::vector<int64_t> inside;
      const std::vector<Anchor> anchors = anchors_of(each.program);
      for (size_t i = 0; i < std::min(anchors.size(), largest.size()); ++i) {
        if (anchors[i].segment != largest[i].segment || anchors[i].number != largest[i].number) {
          why_ = "values lie in other buffers at other sizes";
          return false;
        }
        inside.push_back(anchors[i].inside);
      }
      lists.push_back(std::move(inside));
    }
    return fit_all(lists, found, "the place of a tensor in a buffer");
  }

  // `loops`: one kernel at each instance; they have one text but for numbers.
  bool fit_loop(const std::vector<const ir::Loop*>& loops, LoopNumbers& found) {
    std::vector<std::vector<int64_t>> lists;
    for (const ir::Loop* loop : loops) {
      std::vector<int64_t>& list = lists.emplace_back();
      ir::Loop copy = *loop;
      for_each_number(copy, [&](int64_t& number) { list.push_back(number); });
    }
    for (size_t id = 0; id < loops[0]->instructions.size(); ++id) {
      std::vector<double> values;
      for (const ir::Loop* loop : loops) values.push_back(loop->instructions[id].value);
      const auto real = ir::SizeReal::fit(grid_, values);
      check(real.has_value(), "a constant of a kernel is no polynomial of the sizes");
      if (!real->is_constant()) found.constants.emplace_back(id, *real);
    }
    return fit_all(lists, found.numbers, "a number of a kernel");
  }

  bool make_kernels(std::vector<codegen::SizedKernel>& kernels, std::vector<LoopNumbers>& numbers) {
    std::vector<std::vector<const ir::Loop*>> lists;
    for (const Compilation& each : instances_) lists.push_back(loops_of(each.program));
    for (size_t k = 0; k < lists[0].size(); ++k) {
      std::vector<const ir::Loop*> loops;
      for (const auto& list : lists) loops.push_back(list[k]);
      auto kernel = codegen::make_sized_kernel(grid_, loops, why_);
      if (!kernel || !fit_loop(loops, numbers.emplace_back())) return false;
      kernels.push_back(std::move(*kernel));
    }
    return true;
  }

  const ir::SizeGrid& grid_;
  std::string& why_;
  std::vector<Compilation> instances_;
};

// At the largest sizes an address is where its anchor begins plus the bytes inside; elsewhere the
// bytes inside are others.
void move_addresses(ir::Program& program, const std::vector<Dependent>& inside,
                    const ir::SizeSteps& steps) {
  const ir::SizeSteps largest(steps.size(), 0);
  size_t place = 0, next = 0;
  for (ir::Step& step : program.steps) {
    for_each_address(step, [&](Address& address) {
      if (next < inside.size() && inside[next].place == place) {
        address.offset += inside[next].number.at(steps) - inside[next].number.at(largest);
        ++next;
      }
      ++place;
    });
  }
}

}  // namespace

ir::Program DynamicProgram::program_at(const ir::SizeSteps& steps) const {
  ir::Program program = largest.program;
  size_t place = 0, next = 0;
  for_each_number(program, [&](int64_t& number) {
    set_number(numbers->numbers, steps, place++, next, number);
  });
  move_addresses(program, numbers->inside, steps);
  std::vector<ir::Loop> loops;
  for (ir::Step& step : program.steps) {
    if (auto* attention = std::get_if<ir::AttentionStep>(&step.work)) {
      // Fewer splits than were planned for fit into the workspace.
      const int64_t planned = attention->num_splits;
      attention->num_splits = std::min(planned, attention->wanted_splits());
    }
    auto* kernel = std::get_if<ir::KernelStep>(&step.work);
    if (kernel == nullptr) continue;
    const std::vector<int64_t> arguments = kernels[loops.size()].arguments_at(steps);
    kernel->scalars.insert(kernel->scalars.end(), arguments.begin(), arguments.end());
    loops.push_back(largest.program.kernels[kernel->kernel]);
    kernel->kernel = static_cast<int>(loops.size()) - 1;
    numbers->loops[loops.size() - 1].set(loops.back(), steps);
  }
  program.kernels = std::move(loops);
  return program;
}

std::shared_ptr<DynamicProgram> compile_dynamic(const ir::SizeGrid& grid,
                                                std::span<const ir::Graph* const> traced,
                                                passes::StateLayout& states, PassOptions options,
                                                std::string& why) {
  if (auto found = DynamicCompiler(grid, why).run(traced, states, options)) return found;
  // How large values are decides the order of steps, too.
  options.disabled.emplace_back("schedule");
  options.disabled.emplace_back("overlap_collectives");
  return DynamicCompiler(grid, why).run(traced, states, std::move(options));
}

}  // namespace monograph::compiler
