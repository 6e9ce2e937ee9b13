#include "frontend/trace/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "frontend/trace/stream.h"

namespace monograph::trace {
namespace {

constexpr int64_t kElementsAThread = 1 << 16;

// Four elements at a time: one block of Philox gives four uniforms.
using Quad = std::array<double, 4>;

Quad uniforms(int64_t seed, uint32_t stream, int64_t first) {
  const auto group = static_cast<uint64_t>(first) / 4;
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), 0, stream},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  Quad u;
  for (size_t i = 0; i < u.size(); ++i) u[i] = (words[i] >> 8) * 0x1p-24;
  return u;
}

// Box and Muller, "A note on the generation of random normal deviates" (1958): two uniforms give
// two normals. 1 - u > 0.
Quad normals(const Quad& u) {
  Quad normal;
  for (size_t i = 0; i < normal.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1.0 - u[i]));
    const double angle = 2 * std::numbers::pi * u[i + 1];
    normal[i] = radius * std::cos(angle);
    normal[i + 1] = radius * std::sin(angle);
  }
  return normal;
}

// Calls visit(i) for i = 0, 4, 8, ... below `count`, on as many threads as are worth it.
void for_each_quad(int64_t count, const std::function<void(int64_t)>& visit) {
  const int64_t num_quads = (count + 3) / 4;
  const int64_t num_threads = std::clamp<int64_t>(
      count / kElementsAThread, 1, std::max<int64_t>(1, std::thread::hardware_concurrency()));
  std::vector<std::jthread> threads;
  for (int64_t t = 0; t < num_threads; ++t) {
    threads.emplace_back([=, &visit] {
      const int64_t last = num_quads * (t + 1) / num_threads;
      for (int64_t q = num_quads * t / num_threads; q < last; ++q) visit(4 * q);
    });
  }
}

// The elements first .. first + 3.
Quad quad(const Initializer& from, int64_t seed, uint32_t stream, int64_t first) {
  if (from.kind == Initializer::Kind::kConstant) return {from.a, from.a, from.a, from.a};
  const bool is_uniform = from.kind == Initializer::Kind::kUniform;
  const Quad u = uniforms(seed, stream, first);
  Quad values = is_uniform ? u : normals(u);
  const double scale = is_uniform ? from.b - from.a : from.b;
  for (double& value : values) value = from.a + scale * value;
  return values;
}

uint32_t initial_stream(std::string_view name) {
  return stream_of("init:" + std::string(name));
}

}  // namespace

void fill_initial(const Initializer& initializer, std::string_view name, int64_t seed,
                  int64_t first, std::span<float> elements) {
  check(first % 4 == 0 && initializer.kind != Initializer::Kind::kFunction,
        "the elements of '{}' from {} on are not made four at a time", name, first);
  const uint32_t stream = initial_stream(name);
  const auto size = static_cast<int64_t>(elements.size());
  for_each_quad(size, [&](int64_t i) {
    const Quad values = quad(initializer, seed, stream, first + i);
    for (int64_t k = 0; k < std::min<int64_t>(4, size - i); ++k) {
      elements[i + k] = static_cast<float>(values[k]);
    }
  });
}

ir::Literal Initializer::make(const ir::TensorType& type, std::string_view name,
                              int64_t seed) const {
  if (kind == Kind::kFunction) return ir::Literal::from(type, element);
  ir::Literal literal(type);
  if (is_zero()) return literal;
  const int64_t size = type.num_elements();
  if (type.dtype == ir::DType::kF32) {
    fill_initial(*this, name, seed, 0, literal.as<float>());
    return literal;
  }
  const uint32_t stream = initial_stream(name);
  for_each_quad(size, [&](int64_t i) {
    const Quad values = quad(*this, seed, stream, i);
    for (int64_t k = 0; k < std::min<int64_t>(4, size - i); ++k) literal.set(i + k, values[k]);
  });
  return literal;
}

State::State(std::string name, ir::TensorType type, ir::StateRole role, Initializer initializer)
    : data_(std::make_shared<Data>(Data{std::move(name), std::move(type), role, initializer,
                                        std::make_shared<bool>(false)})) {}

State State::moment_of(const State& parameter, const std::string& prefix, ir::DType dtype) {
  State moment(prefix + parameter.name(), {dtype, parameter.shape()}, ir::StateRole::kMoment,
               Initializer::constant(0));
  moment.data_->prefix = prefix;
  moment.data_->sharding = parameter.data_->sharding;
  return moment;
}

void State::put_into(std::shared_ptr<const ir::FlatUnit> unit, int index) {
  if (flat_unit() != nullptr) {
    throw_user_error("parameter '{}' is sharded already, in unit '{}': shard a model once", name(),
                     flat_unit()->name);
  }
  data_->sharding->unit = std::move(unit);
  data_->sharding->index = index;
}

void State::divide(const ir::TensorShard& shard) {
  if (tensor_shard() || flat_unit() != nullptr) {
    throw_user_error(
        "parameter '{}' is divided already: call tensor_parallel once, and before "
        "fully_shard",
        name());
  }
  data_->sharding->shard = shard;
}

void State::put_on(std::shared_ptr<const ir::Pipeline> pipeline, std::vector<int> ranks) {
  if (this->pipeline() != nullptr || flat_unit() != nullptr) {
    throw_user_error(
        "parameter '{}' is {}: call pipeline once, and on a model that is not fully sharded",
        name(),
        flat_unit() != nullptr ? "in unit '" + flat_unit()->name + "' of fully_shard"
                               : "in a pipeline already");
  }
  data_->sharding->pipeline = std::move(pipeline);
  data_->sharding->ranks = std::move(ranks);
}

ir::TensorType State::part_type() const {
  return tensor_shard() ? ir::TensorType{type().dtype, tensor_shard()->part_of(shape())} : type();
}

std::vector<ir::FlatStates> flat_states_of(const std::vector<State>& states) {
  std::vector<ir::FlatStates> result;
  for (const State& state : states) {
    const auto& unit = state.flat_unit();
    if (unit == nullptr) continue;
    const std::string name = fmt::format("{}flat.{}", state.prefix(), unit->name);
    const auto is_it = [&](const ir::FlatStates& known) { return known.name == name; };
    if (std::any_of(result.begin(), result.end(), is_it)) continue;
    result.push_back({name, state.role(), unit, {}, state.type().dtype});
    for (const ir::FlatUnit::Member& member : unit->members) {
      result.back().members.push_back(state.prefix() + member.name);
    }
  }
  return result;
}

}  // namespace monograph::trace
