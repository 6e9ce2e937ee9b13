#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Runs a fuzzer without libFuzzer, on the files of a folder and on so many small changes of each:
// what every build's tests can afford.
// Usage: NAME_replay FOLDER CHANGES
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Flips, cuts, repeats or moves some bytes.
std::string changed(std::string bytes, std::mt19937_64& random) {
  for (int change = 0; change < 3 && !bytes.empty(); ++change) {
    const size_t at = random() % bytes.size();
    const size_t count = std::min<size_t>(1 + random() % 8, bytes.size() - at);
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(random() % bytes.size(), bytes.substr(at, count));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER CHANGES\n", argv[0]);
    return 2;
  }
  const int num_changes = std::atoi(argv[2]);
  std::vector<std::filesystem::path> files;
  for (const auto& item : std::filesystem::directory_iterator(argv[1]))
    files.push_back(item.path());
  std::sort(files.begin(), files.end());
  std::mt19937_64 random(1);
  for (const auto& file : files) {
    const std::string bytes = read(file);
    run(bytes);
    for (int change = 0; change < num_changes; ++change) run(changed(bytes, random));
  }
  std::printf("%zu files, %d changes of each\n", files.size(), num_changes);
  return files.empty() ? 1 : 0;
}
