#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/cache/maintenance.h"

// Any bytes as the entry of a kernel, and as its library: find() returns what was compiled or
// nothing; ls, verify and gc survive.
namespace {

using namespace monograph::codegen;

const KeyParts kKey = {{"loop", "l"}, {"compiler", "c"}};

std::filesystem::path make_folder() {
  std::string name = std::filesystem::temp_directory_path() / "monograph-cache-fuzz-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  return name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = make_folder();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  KernelCache cache(folder);
  write_file(folder / "kernels" / (key_of(kKey) + ".json"), bytes);
  write_file(folder / "latest" / "l.so", bytes);
  const std::string checksum = monograph::hash_of(bytes).hex();
  write_file(folder / "libraries" / (checksum + ".so"), bytes);
  const auto entry = cache.find(kKey);
  if (entry && monograph::hash_of(*read_file(entry->library)).hex() != entry->library.stem()) {
    std::abort();
  }
  const auto parsed = parse_entry(bytes);
  if (const auto* stored = std::get_if<CacheEntry>(&parsed)) {
    const auto again = parse_entry(to_text(*stored));
    if (!std::holds_alternative<CacheEntry>(again)) std::abort();
  }
  try {
    list_cache(folder, true);
    collect_garbage(folder, {.max_bytes = 0});
  } catch (const monograph::UserError&) {
  }
  return 0;
}
