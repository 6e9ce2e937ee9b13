#pragma once

#include <string>

#include "base/error.h"

namespace monograph {

// For tests: what the Error says that the function ends with, or "no error".
template <typename Error = UserError, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace monograph
