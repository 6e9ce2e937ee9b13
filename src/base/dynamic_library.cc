#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

#include "base/error.h"

namespace monograph {
namespace {

std::string path_of(void* handle, const std::string& fallback) {
  const link_map* map = nullptr;
  const bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
  return is_known && map->l_name[0] != '\0' ? map->l_name : fallback;
}

}  // namespace

DynamicLibrary::DynamicLibrary(std::string_view purpose, const std::vector<std::string>& candidates,
                               std::string_view advice) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    void* const handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      handle_ = std::shared_ptr<void>(handle, [](void* h) { dlclose(h); });
      path_ = path_of(handle, candidate);
      return;
    }
    const char* const reason = dlerror();
    tried += fmt::format("\n  {}: {}", candidate, reason != nullptr ? reason : "no reason given");
  }
  throw_user_error("{}, which cannot be opened: {}. Tried:{}", purpose, advice, tried);
}

bool DynamicLibrary::has(const char* name) const {
  return dlsym(handle_.get(), name) != nullptr;
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const address = dlsym(handle_.get(), name);
  if (address == nullptr) {
    throw_user_error("{} has no function '{}': it is of another version; install a newer one",
                     path_, name);
  }
  return address;
}

std::vector<std::string> cuda_library_candidates(const std::vector<std::string>& names) {
  std::vector<std::string> candidates = names;
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* const root = std::getenv(variable);
    if (root != nullptr && *root != '\0') roots.emplace_back(root);
  }
  roots.emplace_back("/usr/local/cuda");
  for (const std::string& root : roots) {
    for (const char* folder : {"/lib64/", "/lib/"}) {
      for (const std::string& name : names) candidates.push_back(root + folder + name);
    }
  }
  return candidates;
}

}  // namespace monograph
