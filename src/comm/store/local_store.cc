#include "comm/store/local_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "base/error.h"

namespace monograph::comm {

void LocalStore::set(std::string_view key, std::string_view value) {
  const std::scoped_lock lock(mutex_);
  values_.insert_or_assign(std::string(key), std::string(value));
  changed_.notify_all();
}

std::string LocalStore::get(std::string_view key, Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto is_there = [&] { return values_.contains(key); };
  if (!changed_.wait_for(lock, timeout, is_there)) {
    throw CommError(fmt::format("[store] '{}' did not come within {} ms", key, timeout.count()));
  }
  return values_.find(key)->second;
}

int64_t LocalStore::add(std::string_view key, int64_t delta) {
  const std::scoped_lock lock(mutex_);
  std::string& value = values_[std::string(key)];
  int64_t sum = 0;
  std::from_chars(value.data(), value.data() + value.size(), sum);
  sum += delta;
  value = std::to_string(sum);
  changed_.notify_all();
  return sum;
}

void LocalStore::wait(std::span<const std::string> keys, Milliseconds timeout) {
  std::vector<std::string> missing;
  std::unique_lock lock(mutex_);
  const auto are_there = [&] {
    missing.clear();
    for (const std::string& key : keys) {
      if (!values_.contains(key)) missing.push_back(key);
    }
    return missing.empty();
  };
  if (!changed_.wait_for(lock, timeout, are_there)) {
    throw CommError(fmt::format("[store] {} did not come within {} ms", fmt::join(missing, ", "),
                                timeout.count()));
  }
}

bool LocalStore::erase(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  values_.erase(found);
  return true;
}

}  // namespace monograph::comm
