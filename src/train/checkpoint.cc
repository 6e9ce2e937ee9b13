#include "train/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "frontend/import/safetensors.h"

namespace monograph::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "monograph checkpoint 1";
constexpr std::string_view kPrefix = "step-";
constexpr size_t kMaxFaults = 4;  // listed in an error

std::string tensor_path(const std::string& folder, int64_t step) {
  return (fs::path(folder) / fmt::format("{}{}.safetensors", kPrefix, step)).string();
}
std::string manifest_path(const std::string& folder, int64_t step) {
  return (fs::path(folder) / fmt::format("{}{}.json", kPrefix, step)).string();
}

// N of "step-N" + ending.
std::optional<int64_t> step_of(const std::string& name, std::string_view ending) {
  if (!name.starts_with(kPrefix) || !name.ends_with(ending)) return {};
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size() - ending.size();
  int64_t step = 0;
  const auto [parsed, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || parsed != end) return {};
  return step;
}

std::string checksum(const ir::Literal& value) {
  Hasher hasher;
  hasher.add_bytes(value.data(), static_cast<size_t>(value.type().num_bytes()));
  return hasher.finish().hex();
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_user_error("cannot make the folder '{}' for checkpoints: {}", folder, error.message());
  }
}

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw_user_error(
      "checkpoint '{}' cannot be used: {}. To go on from an older one, remove its .json and "
      ".safetensors files",
      path, reason);
}

Json read_manifest(const std::string& path) {
  const MappedFile file("the checkpoint", path);
  const auto* const text = reinterpret_cast<const char*>(file.bytes().data());
  Json manifest = Json::parse(text, text + file.bytes().size(), nullptr, false);
  if (!manifest.is_object() || manifest.value("format", "") != kFormat) {
    refuse(path, fmt::format("the manifest is cut or no '{}'", kFormat));
  }
  const std::string expected = manifest.value("xxh3", "");
  manifest.erase("xxh3");
  if (hash_of(manifest.dump()).hex() != expected) refuse(path, "the manifest was changed");
  return manifest;
}

void read_tensors(const std::string& path, const Json& described, Checkpoint& checkpoint) {
  const import::SafetensorsFile file(path);
  for (const auto& [name, description] : described.items()) {
    const import::StoredTensor* const tensor = file.find(name);
    if (tensor == nullptr) refuse(path, fmt::format("tensor '{}' is not in it", name));
    if (tensor->type.str() != description.value("type", "")) {
      refuse(path, fmt::format("tensor '{}' is {}, the manifest has {}", name, tensor->type.str(),
                               description.value("type", "")));
    }
    ir::Literal value = import::read_tensor(*tensor);
    if (checksum(value) != description.value("xxh3", "")) {
      refuse(path, fmt::format("the elements of tensor '{}' were changed", name));
    }
    checkpoint.states[name] = std::move(value);
  }
  if (file.tensors().size() != described.size()) {
    refuse(path, fmt::format("it has {} tensors, the manifest {}", file.tensors().size(),
                             described.size()));
  }
}

}  // namespace

void Checkpoint::check_settings(const std::string& folder,
                                const std::map<std::string, std::string>& expected) const {
  for (const auto& [name, value] : expected) {
    const auto found = settings.find(name);
    if (found != settings.end() && found->second == value) continue;
    refuse(manifest_path(folder, step),
           fmt::format("its {} is {}, of this run it is {}", name,
                       found == settings.end() ? "not known" : found->second, value));
  }
}

std::vector<int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of(entry.path().filename().string(), ".json")) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint) {
  make_folder(folder);
  std::vector<import::TensorSource> tensors;
  Json described = Json::object();
  for (const auto& [name, value] : checkpoint.states) {
    tensors.push_back({name, value.type(), [&value = value] { return value; }});
    described[name] = {{"type", value.type().str()}, {"xxh3", checksum(value)}};
  }
  import::write_safetensors(tensor_path(folder, checkpoint.step), tensors);
  Json manifest = {{"format", kFormat},
                   {"step", checkpoint.step},
                   {"settings", checkpoint.settings},
                   {"tensors", std::move(described)}};
  manifest["xxh3"] = hash_of(manifest.dump()).hex();
  const std::string text = manifest.dump(1) + "\n";
  AtomicFile file("the checkpoint", manifest_path(folder, checkpoint.step));
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

Checkpoint read_checkpoint(const std::string& folder, int64_t step) {
  const std::string path = manifest_path(folder, step);
  const Json manifest = read_manifest(path);
  Checkpoint checkpoint;
  checkpoint.step = manifest.at("step").get<int64_t>();
  if (checkpoint.step != step) refuse(path, fmt::format("it is of step {}", checkpoint.step));
  checkpoint.settings = manifest.at("settings").get<std::map<std::string, std::string>>();
  read_tensors(tensor_path(folder, step), manifest.at("tensors"), checkpoint);
  return checkpoint;
}

void clean_checkpoints(const std::string& folder, int64_t keep) {
  std::vector<int64_t> steps = checkpoint_steps(folder);
  std::error_code ignored;  // what cannot be removed stays
  while (static_cast<int64_t>(steps.size()) > keep) {
    fs::remove(manifest_path(folder, steps.front()), ignored);  // first: then it does not exist
    steps.erase(steps.begin());
  }
  std::vector<fs::path> left_over;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto step = step_of(name, ".safetensors");
    const bool is_orphan = step && !std::binary_search(steps.begin(), steps.end(), *step);
    const bool is_partial = name.starts_with(kPrefix) && name.find(".partial") != name.npos;
    if (is_orphan || is_partial) left_over.push_back(entry.path());
  }
  for (const fs::path& path : left_over) fs::remove(path, ignored);
}

bool is_saved(const std::string& state) {
  return !state.starts_with(ir::kCoordinatePrefix) && !state.starts_with(ir::kIndicesPrefix) &&
         state != trace::kSeedName;
}

void restore(const Checkpoint& checkpoint, const std::string& folder, session::Session& session) {
  std::vector<std::string> faults;
  std::set<std::string> known;
  for (const std::string& name : session.state_names()) {
    if (!is_saved(name)) continue;
    known.insert(name);
    const auto found = checkpoint.states.find(name);
    if (found == checkpoint.states.end()) {
      faults.push_back(fmt::format("it lacks tensor '{}'", name));
    } else if (found->second.type() != session.state_type(name)) {
      faults.push_back(fmt::format("its tensor '{}' is {}, the model's {}", name,
                                   found->second.type().str(), session.state_type(name).str()));
    }
  }
  for (const auto& [name, value] : checkpoint.states) {
    if (!known.contains(name)) faults.push_back(fmt::format("the model has no '{}'", name));
  }
  if (!faults.empty()) {
    const size_t hidden = faults.size() - std::min(faults.size(), kMaxFaults);
    faults.resize(faults.size() - hidden);
    refuse(tensor_path(folder, checkpoint.step),
           fmt::format("it is of another model: {}{}", fmt::join(faults, "; "),
                       hidden == 0 ? "" : fmt::format("; and {} more", hidden)));
  }
  for (const auto& [name, value] : checkpoint.states) session.set_state(name, value);
}

CheckpointWriter::CheckpointWriter(std::string folder, int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  if (keep < 1) throw_user_error("--checkpoint-keep {}: use 1 or more", keep);
  make_folder(folder_);
}

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

bool CheckpointWriter::save(Checkpoint checkpoint) {
  const bool must_wait =
      writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  finish();
  writing_ = std::async(std::launch::async, [this, checkpoint = std::move(checkpoint)] {
    write_checkpoint(folder_, checkpoint);
    clean_checkpoints(folder_, keep_);
  });
  return must_wait;
}

void CheckpointWriter::finish() {
  if (writing_.valid()) writing_.get();
}

}  // namespace monograph::train
