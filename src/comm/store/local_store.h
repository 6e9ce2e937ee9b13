#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "comm/store.h"

namespace monograph::comm {

// A store for ranks that are threads of one process.
class LocalStore : public Store {
 public:
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Milliseconds timeout) override;
  int64_t add(std::string_view key, int64_t delta) override;
  void wait(std::span<const std::string> keys, Milliseconds timeout) override;
  bool erase(std::string_view key) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace monograph::comm
