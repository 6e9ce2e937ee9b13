#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/job_watch.h"
#include "comm/store.h"
#include "comm/store/socket.h"

namespace monograph::comm {

// A message on the wire: its length in 4 bytes, then its fields. Little-endian; both sides are of
// one version (the first message says which).
class FrameWriter {
 public:
  FrameWriter() : bytes_(4, '\0') {}
  FrameWriter& add(int64_t value);
  FrameWriter& add(std::string_view text);
  FrameWriter& add(const Failure& failure);
  FrameWriter& add(const std::optional<Progress>& progress);
  std::string finish();  // with the length in front

 private:
  std::string bytes_;
};

// Reads the fields in the order in which they were added. CommError when the message ends too
// early.
class FrameReader {
 public:
  explicit FrameReader(std::string_view body) : rest_(body) {}
  int64_t integer();
  std::string_view text();
  Failure failure();
  std::optional<Progress> progress();

 private:
  std::string_view take(size_t num_bytes);
  std::string_view rest_;
};

inline constexpr size_t kMaxFrameBytes = size_t{64} << 20;

// Takes the first whole message off the front; nothing when there is none yet. CommError when it is
// longer than `limit`.
std::optional<std::string> take_frame(std::string* received, size_t limit);

// Blocking use of a non-blocking socket. CommError at end of stream or when the deadline passed.
void send_frame(const Socket& socket, std::string_view frame, Clock::time_point deadline);
std::string receive_frame(const Socket& socket, std::string* received, Clock::time_point deadline);

// The kinds of message. A client says hello first, as one of two: it then sends requests, each with
// one reply, or it watches: both sides send when they have something to say.
enum class Request : int64_t { kSet, kGet, kAdd, kWait, kErase };
enum class Reply : int64_t { kOk, kTimeout, kJobFailed };
enum class ClientKind : int64_t { kStore, kWatch };
enum class ToServer : int64_t { kPong, kAsk, kSettle, kBye };
enum class ToWatch : int64_t { kPing, kReports, kFailure, kLeft };
inline constexpr std::string_view kProtocol = "monograph-store-1";

}  // namespace monograph::comm
