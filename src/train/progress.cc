#include "train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "train/report.h"

namespace monograph::train {

using Clock = std::chrono::steady_clock;

constexpr int kBarCells = 30;
constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kPlainInterval{5};

Progress::Progress(std::FILE* out, int64_t num_steps, bool is_quiet)
    : out_(out),
      num_steps_(num_steps),
      is_quiet_(is_quiet),
      is_terminal_(isatty(fileno(out)) == 1),
      start_(Clock::now()) {}

std::string Progress::bar(int64_t step) const {
  const auto filled = static_cast<int>(step * kBarCells / num_steps_);
  std::string text = "\x1b[36m";
  for (int cell = 0; cell < kBarCells; ++cell) {
    if (cell == filled) text += "\x1b[90m";
    text += "━";
  }
  return text + "\x1b[0m";
}

void Progress::step(int64_t step, double loss, double tokens_per_s) {
  const auto now = Clock::now();
  if (first_step_ < 0) {
    first_step_ = step;
    start_ = now;
  }
  const auto interval = is_terminal_ ? Clock::duration(kTerminalInterval) : kPlainInterval;
  const bool is_due = step == num_steps_ || step == first_step_ || now - last_ >= interval;
  if (is_quiet_ || !is_due) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const int64_t done = step - first_step_;
  const auto left = static_cast<int64_t>(
      done == 0 ? 0 : elapsed / static_cast<double>(done) * static_cast<double>(num_steps_ - step));
  const std::string text =
      fmt::format("loss {:.4f} {:>9} tok/s  {}:{:02} left", loss,
                  grouped(static_cast<int64_t>(tokens_per_s)), left / 60, left % 60);
  if (is_terminal_) {
    fmt::print(out_, "\r\x1b[Kstep {:>{}}/{} {}  {}", step, grouped(num_steps_).size(), num_steps_,
               bar(step), text);
    is_open_ = true;
  } else {
    fmt::print(out_, "step {}/{}  {}\n", step, num_steps_, text);
  }
  std::fflush(out_);
}

void Progress::pause() {
  if (is_open_) fmt::print(out_, "\n");
  is_open_ = false;
}

}  // namespace monograph::train
