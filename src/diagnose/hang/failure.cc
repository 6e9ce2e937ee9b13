#include "diagnose/hang/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

constexpr size_t kMaxMessage = 300;
constexpr size_t kMaxFrames = 256;
constexpr size_t kMaxOpen = 4096;  // ranks whose traceback is being read
constexpr int kMaxForeign = 8;     // lines of others inside a traceback

template <size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](auto part) { return has(text, part); });
}

size_t indentation(std::string_view text) {
  return std::min(text.find_first_not_of(' '), text.size());
}

// "torch.OutOfMemoryError: CUDA out of memory", "KeyboardInterrupt"; nothing if the line is no
// exception.
std::optional<Failure> parse_exception(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view type = trim(line.substr(0, colon));
  const bool is_name = !type.empty() && type.size() < 200 && !is_digit(type[0]) &&
                       std::all_of(type.begin(), type.end(), [](char c) {
                         return is_word(c) || c == '.' || c == '<' || c == '>';
                       });
  if (!is_name) return std::nullopt;
  Failure failure;
  failure.type = type;
  if (colon != std::string_view::npos) {
    failure.message = trim(line.substr(colon + 1)).substr(0, kMaxMessage);
  }
  return failure;
}

StackFrame parse_frame(std::string_view file) {
  return {std::string(trim(after(file, ", in ").value_or(""))), std::string(before(file, "\"")),
          integer_after(file, "\", line ").value_or(0)};
}

struct Advice {
  std::string_view sign;
  std::string_view advice;
};

constexpr std::array<Advice, 22> kAdvice{{
    {"out of memory",
     "use a smaller micro-batch or sequence, activation checkpointing, or shard states (FSDP); if "
     "much is reserved but unallocated set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; look "
     "for other processes on that GPU (nvidia-smi)"},
    {"OutOfMemory", "use a smaller micro-batch or sequence, or activation checkpointing"},
    {"device-side assert",
     "usually an index out of range (labels, embedding, gather): run once with "
     "CUDA_LAUNCH_BLOCKING=1, or the batch on the CPU, to get the line"},
    {"illegal memory access",
     "the line may be a later one: run once with CUDA_LAUNCH_BLOCKING=1, then compute-sanitizer; "
     "if it happens on one host only, look for Xid in its dmesg"},
    {"uncorrectable",
     "the GPU is faulty: take the host out of the job (dmesg: Xid, nvidia-smi -q)"},
    {"CUDA error",
     "run once with CUDA_LAUNCH_BLOCKING=1 for the true line; look for Xid in the host's dmesg"},
    {"SIGKILL",
     "mostly lack of host memory (dmesg: oom-kill; fewer or smaller data workers), else a limit of "
     "the scheduler or container"},
    {"SIGSEGV",
     "a crash in native code: python -X faulthandler and a core dump (ulimit -c unlimited; gdb) "
     "show where; check that extensions were built for this PyTorch"},
    {"SIGBUS",
     "enlarge shared memory (/dev/shm, docker --shm-size); a mapped file may be cut short"},
    {"SIGILL", "the program or a library was built for another CPU: build it for this host's"},
    {"SIGFPE", "an integer division by zero in native code: a core dump (gdb) shows where"},
    {"Bus error", "enlarge shared memory (/dev/shm, docker --shm-size) or use fewer workers"},
    {"DataLoader worker",
     "look at the worker's own error above; killed workers mean lack of host memory or of "
     "/dev/shm"},
    {"Too many open files",
     "raise ulimit -n, or torch.multiprocessing.set_sharing_strategy('file_system')"},
    {"No space left on device", "free space on that host, or write elsewhere"},
    {"ddress already in use", "choose another MASTER_PORT, or end the job that still holds it"},
    {"ailed to connect",
     "check MASTER_ADDR and MASTER_PORT from that host, its firewall, and that rank 0 started"},
    {"Expected to have finished reduction",
     "some parameters got no gradient: find_unused_parameters=True in DistributedDataParallel, or "
     "let every parameter take part in the loss"},
    {"Error(s) in loading state_dict",
     "the checkpoint is of another model or sharding: load it with the configuration it was "
     "saved with"},
    {"ModuleNotFoundError", "install the same packages on every host"},
    {"ImportError", "install the same packages in the same versions on every host"},
    {"FileNotFoundError",
     "make the path exist on every host, or let one rank make it and a barrier "
     "follow"},
}};

}  // namespace

std::string title(const Failure& failure) {
  std::string_view type = failure.type;
  if (const size_t dot = type.rfind('.'); dot != std::string_view::npos)
    type.remove_prefix(dot + 1);
  std::string_view message = failure.message;
  for (const std::string_view end : {". ", "\n"}) message = before(message, end);
  if (message.ends_with('.')) message.remove_suffix(1);
  const std::string text(message.substr(0, 160));
  if (type.empty()) return text;
  return text.empty() ? std::string(type) : fmt::format("{}: {}", type, text);
}

bool is_consequence(const Failure& failure) {
  static constexpr std::array<std::string_view, 9> kTypes{
      "ChildFailedError",       "SignalException", "ProcessRaisedException",
      "ProcessExitedException", "SystemExit",      "KeyboardInterrupt",
      "DistBackendError",       "DistStoreError",  "BrokenPipeError"};
  static constexpr std::array<std::string_view, 16> kMessages{"onnection closed by peer",
                                                              "onnection reset by peer",
                                                              "Broken pipe",
                                                              "onitoredBarrier",
                                                              "ollective",
                                                              "atchdog",
                                                              "gloo",
                                                              "NCCL",
                                                              "imed out",
                                                              "Socket Timeout",
                                                              "wait timeout",
                                                              "recvValue",
                                                              "failed to recv",
                                                              "imeout after",
                                                              "EOFError",
                                                              "killed by signal: "
                                                              "Terminated"};
  if (has(failure.message, "ddress already in use") || has(failure.message, "ailed to connect")) {
    return false;
  }
  return has_any(failure.type, kTypes) || has_any(failure.message, kMessages);
}

bool is_of_compiler(const Failure& failure) {
  return failure.type.starts_with("torch._dynamo") || failure.type.starts_with("torch._inductor");
}

std::string failure_advice(const Failure& failure) {
  const std::string whole = failure.type + ": " + failure.message;
  for (const Advice& one : kAdvice) {
    if (has(whole, one.sign)) return std::string(one.advice);
  }
  return "mend the cause at that line; the frames below it are in the log";
}

struct TracebackReader::State {
  struct Open {
    std::vector<StackFrame> frames;
    size_t indent = 0;  // of the exception's line
    int num_foreign = 0;
  };
  std::map<int, Open> open;  // by rank
  int child = -1;            // "-- Process 1 terminated with the following error:"
};

TracebackReader::TracebackReader() : state_(std::make_unique<State>()) {}
TracebackReader::~TracebackReader() = default;

std::optional<Failure> TracebackReader::read(std::string_view text, int rank) {
  constexpr std::string_view kHead = "Traceback (most recent call last)";
  const size_t indent = indentation(text);
  const std::string_view line = text.substr(indent);
  if (line.starts_with("-- Process ") && has(line, "terminated with the following error")) {
    state_->child = static_cast<int>(integer_after(line, "-- Process ").value_or(-1));
    return std::nullopt;
  }
  // torchrun shows a rank's traceback below "traceback :", two columns in.
  const bool is_summary = line.starts_with("traceback") && has(line, kHead);
  if (line.starts_with(kHead) || is_summary) {
    if (state_->open.size() < kMaxOpen) state_->open[rank] = {{}, is_summary ? size_t{2} : indent};
    return std::nullopt;
  }
  const auto found = state_->open.find(rank);
  if (found == state_->open.end()) return std::nullopt;
  State::Open& open = found->second;
  if (line.starts_with("File \"") && has(line, "\", line ")) {
    if (open.frames.size() == kMaxFrames) open.frames.pop_back();
    open.frames.insert(open.frames.begin(), parse_frame(line.substr(6)));
    return std::nullopt;
  }
  if (indent > open.indent || line.empty()) return std::nullopt;  // code, or marks below it
  std::optional<Failure> failure;
  if (indent == open.indent && !open.frames.empty()) failure = parse_exception(line);
  if (!failure) {
    if (++open.num_foreign > kMaxForeign) state_->open.erase(found);
    return std::nullopt;
  }
  failure->rank = rank >= 0 ? rank : state_->child;
  failure->frames = std::move(open.frames);
  state_->open.erase(found);
  return failure;
}

}  // namespace monograph::diagnose
