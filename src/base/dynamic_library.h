#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace monograph {

// A shared library opened at run time, so that one binary runs with and without it.
class DynamicLibrary {
 public:
  // Opens the first of `candidates` (names for the loader, or paths) that can be opened. UserError
  // that begins with `purpose` ("CUDA kernels are compiled by NVRTC"), lists what was tried with
  // the loader's words, and ends with `advice` ("install the CUDA toolkit, ...").
  DynamicLibrary(std::string_view purpose, const std::vector<std::string>& candidates,
                 std::string_view advice);

  // The address of a function. UserError that names the library when it has none of that name.
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }
  bool has(const char* name) const;
  const std::string& path() const { return path_; }  // where it was found

 private:
  void* symbol(const char* name) const;

  std::shared_ptr<void> handle_;
  std::string path_;
};

// Candidates for a library of the CUDA toolkit: each of `names` ("libnvrtc.so.13") as the loader
// finds it, then in the lib folders below $CUDA_HOME, $CUDA_PATH and /usr/local/cuda.
std::vector<std::string> cuda_library_candidates(const std::vector<std::string>& names);

}  // namespace monograph
