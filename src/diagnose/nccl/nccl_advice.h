#pragma once

#include <string>
#include <string_view>

namespace monograph::diagnose {

struct NcclAdvice {
  std::string why;
  std::string advice;
  bool is_fatal = true;  // the collective or the start fails after this warning
};

// What an NCCL WARN message means and what to set; general words for one that is not known.
NcclAdvice advise_on_warning(std::string_view message);

}  // namespace monograph::diagnose
