#include "comm/store/tcp_store.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"

namespace monograph::comm {
namespace {

FrameWriter begin(Request kind) {
  FrameWriter writer;
  writer.add(static_cast<int64_t>(kind));
  return writer;
}

}  // namespace

Socket join_store(const StoreAddress& address, ClientKind kind, Clock::time_point deadline,
                  std::string* received) {
  Socket socket = connect_to(address.endpoint, deadline);
  FrameWriter hello;
  hello.add(kProtocol).add(address.token).add(static_cast<int64_t>(kind));
  hello.add(int64_t{address.rank}).add(int64_t{address.world_size});
  send_frame(socket, hello.finish(), deadline);
  const std::string body = receive_frame(socket, received, deadline);
  FrameReader answer(body);
  if (answer.integer() != 0) {
    throw_user_error("the job's store at {} refused this process: {}", address.endpoint.str(),
                     answer.text());
  }
  return socket;
}

TcpStore::TcpStore(const StoreAddress& address, Milliseconds timeout)
    : endpoint_(address.endpoint),
      timeout_(timeout),
      socket_(join_store(address, ClientKind::kStore, Clock::now() + timeout, &received_)) {}

std::string TcpStore::request(FrameWriter& message, Milliseconds timeout) {
  const std::scoped_lock lock(mutex_);
  if (!socket_.is_open()) throw CommError("[store] the connection was lost before");
  const Clock::time_point deadline = Clock::now() + timeout_ + timeout;
  std::string body;
  try {
    send_frame(socket_, message.finish(), deadline);
    body = receive_frame(socket_, &received_, deadline);
  } catch (const CommError& error) {
    socket_.close();  // an answer that comes later would be taken for another's
    throw CommError(fmt::format("[store] {}: {}", endpoint_.str(), error.what()));
  }
  FrameReader reader(body);
  const auto status = static_cast<Reply>(reader.integer());
  const std::string text(reader.text());
  if (status == Reply::kOk) return text;
  throw CommError("[store] " + (status == Reply::kTimeout ? text : "the job failed: " + text));
}

void TcpStore::set(std::string_view key, std::string_view value) {
  request(begin(Request::kSet).add(key).add(value), Milliseconds(0));
}

std::string TcpStore::get(std::string_view key, Milliseconds timeout) {
  return request(begin(Request::kGet).add(timeout.count()).add(int64_t{1}).add(key), timeout);
}

int64_t TcpStore::add(std::string_view key, int64_t delta) {
  const std::string sum = request(begin(Request::kAdd).add(key).add(delta), Milliseconds(0));
  return std::strtoll(sum.c_str(), nullptr, 10);
}

void TcpStore::wait(std::span<const std::string> keys, Milliseconds timeout) {
  FrameWriter message = begin(Request::kWait);
  message.add(timeout.count()).add(static_cast<int64_t>(keys.size()));
  for (const std::string& key : keys) message.add(key);
  request(message, timeout);
}

bool TcpStore::erase(std::string_view key) {
  return request(begin(Request::kErase).add(key), Milliseconds(0)) == "1";
}

std::string TcpStore::local_address() const {
  return comm::local_address(socket_);
}

}  // namespace monograph::comm
