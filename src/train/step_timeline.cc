#include "train/step_timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"

namespace monograph::train {
namespace {

constexpr int64_t kFirstWithParts = 6, kWithParts = 3;  // steps
constexpr std::array<const char*, 4> kTracks = {"steps", "computation", "communication", "compile"};

const std::variant<int64_t, double, std::string_view>* find(std::span<const EventField> fields,
                                                            std::string_view name) {
  for (const EventField& field : fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

int64_t whole_number(std::span<const EventField> fields, std::string_view name) {
  const auto* value = find(fields, name);
  const auto* number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return number == nullptr ? 0 : *number;
}

std::string words(std::span<const EventField> fields, std::string_view name) {
  const auto* value = find(fields, name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string_view>(value);
  return text == nullptr ? "" : std::string(*text);
}

std::string in_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

StepTimeline::StepTimeline(std::string path, int64_t rank, EventLog& events)
    : path_(std::move(path)), rank_(rank) {
  AtomicFile("--timeline", path_);  // better now than after the last step
  events.observe(
      [this](std::string_view event, std::span<const EventField> fields) { note(event, fields); });
}

void StepTimeline::note(std::string_view event, std::span<const EventField> fields) {
  const bool is_compile = event == "compile", is_swap = event == "swap_in";
  const bool is_fallback = event == "compile_timeout" || event == "fallback";
  if (!is_compile && !is_swap && !is_fallback) return;
  const Clock::time_point now = Clock::now();
  const int64_t ns = whole_number(fields, is_fallback ? "waited_ns" : "ns");
  const std::string arguments =
      fmt::format(R"("rank":{},"graph":{},"function":{},"reason":{},"ms":{:.3f})", rank_,
                  in_json(words(fields, "graph_hash")), in_json(words(fields, "frame_key")),
                  in_json(words(fields, "reason")), static_cast<double>(ns) / 1e6);
  if (is_compile) {
    add_span(Track::kCompile, "compile " + words(fields, "frame_key"),
             now - std::chrono::nanoseconds(ns), now, arguments);
  } else {
    add_mark(event, arguments);
  }
}

void StepTimeline::add_step(int64_t step, int64_t num_steps, Clock::time_point begin,
                            const session::Executable& executable) {
  add_span(Track::kSteps, fmt::format("step {}", step + 1), begin, Clock::now());
  const session::Build* const build = executable.build();
  const int64_t first = std::clamp<int64_t>(num_steps - kWithParts, 0, kFirstWithParts);
  if (build == nullptr || step < first || step >= first + kWithParts) return;
  add_parts(build->compilation.program, executable.step_times());
}

void StepTimeline::add_parts(const ir::Program& program, std::span<const runtime::StepTime> times) {
  for (size_t i = 0; i < times.size() && i < program.steps.size(); ++i) {
    const ir::Step& step = program.steps[i];
    if (times[i].num_runs == 0) continue;
    const Track track = step.lane == ir::Lane::kCompute ? Track::kCompute : Track::kCommunication;
    add_span(track, step.name, times[i].begin, times[i].end,
             fmt::format(R"("step of the program":{},"phase":"{}","bytes":{})", i,
                         ir::phase_name(step.phase), step.bytes_moved));
  }
}

double StepTimeline::microseconds(Clock::time_point at) const {
  return std::chrono::duration<double, std::micro>(at - start_).count();
}

void StepTimeline::add_span(Track track, std::string_view name, Clock::time_point begin,
                            Clock::time_point end, const std::string& arguments) {
  events_.push_back(fmt::format(
      R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
      in_json(std::string(name)), kTracks[static_cast<size_t>(track)], rank_,
      static_cast<int>(track), microseconds(begin), microseconds(end) - microseconds(begin),
      arguments));
}

void StepTimeline::add_mark(std::string_view name, const std::string& arguments) {
  events_.push_back(fmt::format(
      R"({{"ph":"i","s":"p","name":"{}","cat":"compile","pid":{},"tid":{},"ts":{:.3f},"args":{{{}}}}})",
      name, rank_, static_cast<int>(Track::kCompile), microseconds(Clock::now()), arguments));
}

std::string StepTimeline::json() const {
  std::vector<std::string> all = {fmt::format(
      R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", rank_)};
  for (size_t track = 0; track < kTracks.size(); ++track) {
    all.push_back(
        fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
                    rank_, track, kTracks[track]));
  }
  all.insert(all.end(), events_.begin(), events_.end());
  return fmt::format("{{\"traceEvents\":[\n{}\n]}}\n", fmt::join(all, ",\n"));
}

void StepTimeline::write() const {
  AtomicFile file("--timeline", path_);
  const std::string text = json();
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace monograph::train
