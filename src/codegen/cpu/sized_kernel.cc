#include "codegen/cpu/sized_kernel.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>

#include "base/error.h"
#include "codegen/cpu/render.h"
#include "codegen/value_types.h"

namespace monograph::codegen {
namespace {

using ir::SizeNumber;
using ir::SizeReal;

constexpr std::string_view kPlaceholder = "kernel_of_all_sizes";

constexpr size_t kMostReals = 15;

// Stand for constants that depend on the sizes, until the text is made.
double mark_of(size_t number, bool is_floating) {
  return is_floating ? 7.0390625e20 * static_cast<double>(int64_t{1} << number)
                     : 1987654300.0 + static_cast<double>(number);
}

bool is_mark(double value) {
  for (size_t number = 0; number < kMostReals; ++number) {
    if (value == mark_of(number, true) || value == mark_of(number, false)) return true;
  }
  return false;
}

bool is_number_start(const std::string& text, size_t at) {
  if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) return false;
  if (at == 0) return true;
  const char before = text[at - 1];
  return std::isalnum(static_cast<unsigned char>(before)) == 0 && before != '_' && before != '.';
}

// A text cut into numbers and what stands between them.
struct Pieces {
  std::vector<std::string> between;  // one more than numbers
  std::vector<std::string> numbers;
};

Pieces cut(const std::string& text) {
  Pieces pieces{{""}, {}};
  for (size_t at = 0; at < text.size();) {
    if (!is_number_start(text, at)) {
      pieces.between.back() += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size()) {
      const bool is_exponent = (text[end] == '-' || text[end] == '+') && text[end - 1] == 'e';
      const bool is_part = std::isalnum(static_cast<unsigned char>(text[end])) != 0;
      if (!is_part && text[end] != '.' && !is_exponent) break;
      ++end;
    }
    pieces.numbers.push_back(text.substr(at, end - at));
    pieces.between.emplace_back();
    at = end;
  }
  return pieces;
}

// "512" or "512L"; none for another number.
std::optional<int64_t> whole(const std::string& number) {
  std::string digits = number;
  if (digits.back() == 'L') digits.pop_back();
  const bool is_whole = std::all_of(digits.begin(), digits.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
  if (!is_whole || digits.size() > 18) return std::nullopt;
  return std::stoll(digits);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

class Maker {
 public:
  Maker(const ir::SizeGrid& grid, std::span<const ir::Loop* const> loops, std::string& why)
      : grid_(grid), why_(why) {
    for (const ir::Loop* loop : loops) loops_.push_back(*loop);
  }

  std::optional<SizedKernel> run() {
    if (!mark_constants() || !read_texts()) return std::nullopt;
    std::string body = pieces_[0].between[0];
    for (size_t i = 0; i < pieces_[0].numbers.size(); ++i) {
      const std::optional<std::string> text = number_text(i);
      if (!text) return std::nullopt;
      body += *text + pieces_[0].between[i + 1];
    }
    replace_marks(body);
    const size_t open = body.find('\n') + 1;
    body.insert(open, declarations());
    kernel_.source.identity = body;
    kernel_.source.text = [body](const std::string& symbol) {
      std::string text = body;
      replace_all(text, std::string(kPlaceholder), symbol);
      return text;
    };
    return std::move(kernel_);
  }

 private:
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // Constants that differ between the instances become marks, the same in all.
  bool mark_constants() {
    for (size_t id = 0; id < loops_[0].instructions.size(); ++id) {
      std::vector<double> values;
      for (const ir::Loop& loop : loops_) {
        if (loop.instructions.size() != loops_[0].instructions.size()) {
          return refuse("the kernel has other instructions at other sizes");
        }
        values.push_back(loop.instructions[id].value);
      }
      const bool is_constant = loops_[0].instructions[id].kind == ir::InstructionKind::kConstant;
      if (!is_constant ||
          std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) {
        if (is_constant && is_mark(values[0])) {
          return refuse(fmt::format("the constant {} stands for others here", values[0]));
        }
        continue;
      }
      const auto real = SizeReal::fit(grid_, values);
      if (!real)
        return refuse(
            fmt::format("a constant is {} at one size and {} at another, by no "
                        "polynomial of the sizes",
                        values[0], values[1]));
      const ir::RegisterType type = loops_[0].instructions[id].type;
      const bool is_floating = type == ir::RegisterType::kF32 || type == ir::RegisterType::kF64;
      const double mark = mark_of(kernel_.reals.size(), is_floating);
      for (ir::Loop& loop : loops_) loop.instructions[id].value = mark;
      kernel_.reals.push_back(*real);
    }
    return kernel_.reals.size() <= kMostReals ||
           refuse(fmt::format("more than {} constants depend on the sizes", kMostReals));
  }

  bool read_texts() {
    for (const ir::Loop& loop : loops_) {
      pieces_.push_back(cut(render(loop, kPlaceholder, loops_.data())));
      if (pieces_.back().between != pieces_[0].between) {
        return refuse("the kernel is another one at other sizes");
      }
    }
    return true;
  }

  // The name of a number that depends on the sizes, or the number.
  std::optional<std::string> number_text(size_t place) {
    std::vector<int64_t> values;
    const std::string& text = pieces_[0].numbers[place];
    const bool is_same = std::all_of(pieces_.begin(), pieces_.end(), [&](const Pieces& each) {
      return each.numbers[place] == text;
    });
    if (is_same) return text;
    for (const Pieces& each : pieces_) {
      const auto value = whole(each.numbers[place]);
      if (!value) {
        refuse(fmt::format("the number {} depends on the sizes", text));
        return std::nullopt;
      }
      values.push_back(*value);
    }
    const bool is_long = text.back() == 'L';
    const auto [known, is_new] = names_.try_emplace({values, is_long}, kernel_.numbers.size());
    if (is_new) {
      const auto number = SizeNumber::fit(grid_, values);
      if (!number) {
        refuse(
            fmt::format("a number in a kernel is {} at one size and {} at another, by no "
                        "polynomial of the sizes",
                        values[0], values[1]));
        return std::nullopt;
      }
      kernel_.numbers.push_back(*number);
      is_long_.push_back(is_long || values[0] > INT32_MAX);
    }
    return fmt::format("size{}", known->second);
  }

  void replace_marks(std::string& body) const {
    for (size_t i = 0; i < kernel_.reals.size(); ++i) {
      const double floating = mark_of(i, true), integer = mark_of(i, false);
      replace_all(body, constant_text(floating, CType::kFloat), fmt::format("(float)real{}", i));
      replace_all(body, constant_text(floating, CType::kDouble), fmt::format("real{}", i));
      replace_all(body, constant_text(integer, CType::kLong), fmt::format("(long)real{}", i));
      replace_all(body, constant_text(integer, CType::kInt), fmt::format("(int)real{}", i));
    }
  }

  // The scalars of the launch come first.
  std::string declarations() const {
    if (kernel_.numbers.empty() && kernel_.reals.empty()) return "";
    std::string text = fmt::format("  const long* const sizes = (const long*)args[{}] + {};\n",
                                   loops_[0].buffers.size(), loops_[0].num_scalars());
    for (size_t i = 0; i < kernel_.numbers.size(); ++i) {
      const std::string_view type = is_long_[i] ? "long" : "int";
      text += fmt::format("  const {0} size{1} = ({0})sizes[{1}];\n", type, i);
    }
    for (size_t i = 0; i < kernel_.reals.size(); ++i) {
      text += fmt::format("  const double real{} = ((const double*)sizes)[{}];\n", i,
                          kernel_.numbers.size() + i);
    }
    return text;
  }

  const ir::SizeGrid& grid_;
  std::string& why_;
  std::vector<ir::Loop> loops_;
  std::vector<Pieces> pieces_;
  std::map<std::pair<std::vector<int64_t>, bool>, size_t> names_;
  std::vector<bool> is_long_;
  SizedKernel kernel_;
};

}  // namespace

std::vector<int64_t> SizedKernel::arguments_at(const ir::SizeSteps& steps) const {
  std::vector<int64_t> arguments;
  for (const SizeNumber& number : numbers) arguments.push_back(number.at(steps));
  for (const SizeReal& real : reals) arguments.push_back(std::bit_cast<int64_t>(real.at(steps)));
  return arguments;
}

std::optional<SizedKernel> make_sized_kernel(const ir::SizeGrid& grid,
                                             std::span<const ir::Loop* const> loops,
                                             std::string& why) {
  return Maker(grid, loops, why).run();
}

}  // namespace monograph::codegen
