#include "frontend/import/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "frontend/import/safetensors.h"
#include "ops/elements.h"

namespace monograph::import {
namespace {

std::vector<int64_t> inverse(const std::vector<int64_t>& axes) {
  std::vector<int64_t> result(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) result[axes[i]] = static_cast<int64_t>(i);
  return result;
}

// Axis i of the result is axis axes[i] of the source.
ir::Literal permuted(ir::Literal source, const std::vector<int64_t>& axes) {
  if (axes.empty()) return source;
  const ir::Shape& shape = source.type().shape;
  const std::vector<int64_t> from = shape.contiguous_strides();
  std::vector<int64_t> dims, strides;
  for (const int64_t axis : axes) {
    dims.push_back(shape[static_cast<int>(axis)]);
    strides.push_back(from[axis]);
  }
  ir::Literal result({source.type().dtype, ir::Shape(std::move(dims))});
  ops::copy_from(source, ops::strided_positions(result.type().shape, strides), result);
  return result;
}

ir::Literal cast(ir::Literal source, ir::DType dtype) {
  if (source.type().dtype == dtype) return source;
  ir::Literal result({dtype, source.type().shape});
  ops::write_elements(ops::read_elements<double>(source), result);
  return result;
}

// Finds the tensor of each weight, and what is wrong.
class Matcher {
 public:
  Matcher(const SafetensorsFile& file, const WeightNames& names) : file_(file), names_(names) {
    const auto has_prefix = [&](const StoredTensor& tensor) {
      return tensor.name.starts_with(names.optional_prefix);
    };
    const auto& tensors = file.tensors();
    is_prefixed_ = std::any_of(tensors.begin(), tensors.end(), has_prefix);
  }

  std::vector<const StoredTensor*> run() {
    std::vector<const StoredTensor*> found;
    std::unordered_map<std::string, bool> wanted;
    for (const WeightName& weight : names_.weights) {
      const std::string name = stored_name(weight.stored);
      wanted[name] = true;
      found.push_back(file_.find(name));
      if (found.back() == nullptr) {
        missing_.push_back(fmt::format("{} {}", name, stored_shape(weight).str()));
      } else {
        check_type(weight, *found.back());
      }
    }
    for (const StoredTensor& tensor : file_.tensors()) {
      if (!wanted.contains(tensor.name) && !is_known_extra(tensor)) {
        unexpected_.push_back(fmt::format("{} {}", tensor.name, tensor.type.str()));
      }
    }
    report();
    return found;
  }

 private:
  std::string stored_name(const std::string& name) const {
    return is_prefixed_ ? name : name.substr(prefix_size(name));
  }
  size_t prefix_size(const std::string& name) const {
    return name.starts_with(names_.optional_prefix) ? names_.optional_prefix.size() : 0;
  }

  void check_type(const WeightName& weight, const StoredTensor& tensor) {
    const ir::Shape expected = stored_shape(weight);
    if (tensor.type.shape != expected) {
      unfit_.push_back(fmt::format("{} is {}, the model takes {}", tensor.name, tensor.type.str(),
                                   expected.str()));
    } else if (!ir::is_floating(tensor.type.dtype)) {
      unfit_.push_back(
          fmt::format("{} is {}, a weight has a floating dtype", tensor.name, tensor.type.str()));
    }
  }

  bool is_known_extra(const StoredTensor& tensor) {
    for (const std::string& ending : names_.ignored_endings) {
      if (tensor.name.ends_with(ending)) return true;
    }
    for (const auto& [copy, original] : names_.copies) {
      if (tensor.name != copy) continue;
      const StoredTensor* const twin = file_.find(stored_name(original));
      if (twin != nullptr && !std::equal(twin->bytes.begin(), twin->bytes.end(),
                                         tensor.bytes.begin(), tensor.bytes.end())) {
        unfit_.push_back(fmt::format("{} differs from {}, but the model has one for both",
                                     tensor.name, twin->name));
      }
      return true;
    }
    return false;
  }

  void report() const {
    std::string text;
    const auto add = [&](std::string_view what, const std::vector<std::string>& list) {
      if (list.empty()) return;
      text += fmt::format("\n  {} {}: {}", list.size(), what, fmt::join(list, "; "));
    };
    add("missing", missing_);
    add("unexpected", unexpected_);
    add("unfit", unfit_);
    if (text.empty()) return;
    throw_user_error(
        "weights '{}' are not this model's (it has {} tensors): give the model the sizes of the "
        "file, or another file{}",
        file_.path(), names_.weights.size(), text);
  }

  const SafetensorsFile& file_;
  const WeightNames& names_;
  bool is_prefixed_ = false;
  std::vector<std::string> missing_, unexpected_, unfit_;
};

}  // namespace

ir::Shape stored_shape(const WeightName& weight) {
  std::vector<int64_t> dims = weight.state.shape().dims();
  for (size_t i = 0; i < weight.axes.size(); ++i) {
    dims[weight.axes[i]] = weight.state.shape()[static_cast<int>(i)];
  }
  return ir::Shape(std::move(dims));
}

void load_weights(const std::string& path, const WeightNames& names,
                  const std::function<void(const std::string&, ir::Literal)>& set) {
  const SafetensorsFile file(path);
  const std::vector<const StoredTensor*> tensors = Matcher(file, names).run();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const WeightName& weight = names.weights[i];
    set(weight.state.name(),
        permuted(cast(read_tensor(*tensors[i]), weight.state.type().dtype), weight.axes));
  }
}

void save_weights(const std::string& path, const WeightNames& names,
                  const std::function<ir::Literal(const std::string&)>& get) {
  std::vector<TensorSource> tensors;
  for (const WeightName& weight : names.weights) {
    tensors.push_back({weight.stored, {weight.state.type().dtype, stored_shape(weight)}, [&] {
                         return permuted(get(weight.state.name()), inverse(weight.axes));
                       }});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});  // transformers wants the format named
}

}  // namespace monograph::import
