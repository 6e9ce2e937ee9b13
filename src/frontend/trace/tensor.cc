#include "frontend/trace/tensor.h"

#include <numeric>

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::trace {
namespace {

[[noreturn]] void refuse(const Location& where, const std::string& message) {
  throw_user_error("{}\n  at {}:{}", message, where.file_name(), where.line());
}

Tensor reshape_to(const Tensor& x, std::vector<int64_t> dims, const Location& where) {
  if (x.shape().dims() == dims) return x;
  return emit_at(where, "reshape", {x}, {{"shape", std::move(dims)}});
}

}  // namespace

Trace& Tensor::trace() const {
  if (!trace_) throw_user_error("an empty tensor was used: give it a value first");
  return *trace_;
}

const ir::TensorType& Tensor::type() const {
  trace().graph();  // refuses a tensor of an ended trace
  return value_.type();
}

int64_t Tensor::dim(int axis) const {
  if (axis < -rank() || axis >= rank()) {
    throw_user_error("axis {} out of range for {}", axis, type().str());
  }
  return shape()[axis];
}

Tensor Tensor::reshape(std::vector<int64_t> dims, Location where) const {
  int64_t known = 1, free_axis = -1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == -1 && free_axis < 0) {
      free_axis = static_cast<int64_t>(axis);
    } else {
      known *= dims[axis];
    }
  }
  if (free_axis >= 0) {
    const int64_t count = shape().num_elements();
    if (known <= 0 || count % known != 0) {
      refuse(where, fmt::format("[reshape] {} into {}: {} elements do not divide by {}",
                                type().str(), ir::Shape(dims).str(), count, known));
    }
    dims[free_axis] = count / known;
  }
  return reshape_to(*this, std::move(dims), where);
}

Tensor Tensor::permute(Axes axes, Location where) const {
  for (int64_t& axis : axes) axis = resolve_axis("permute", axis, rank(), where);
  return emit_at(where, "permute", {*this}, {{"axes", std::move(axes)}});
}

Tensor Tensor::transpose(int axis0, int axis1, Location where) const {
  Axes axes(rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[resolve_axis("transpose", axis0, rank(), where)],
            axes[resolve_axis("transpose", axis1, rank(), where)]);
  return emit_at(where, "permute", {*this}, {{"axes", std::move(axes)}});
}

Tensor Tensor::expand(ir::Shape to, Location where) const {
  if (shape() == to) return *this;
  return emit_at(where, "expand", {*this}, {{"shape", to.dims()}});
}

Tensor Tensor::squeeze(int axis, Location where) const {
  std::vector<int64_t> dims = shape().dims();
  const int place = resolve_axis("squeeze", axis, rank(), where);
  if (dims[place] != 1) {
    refuse(where, fmt::format("[squeeze] axis {} of {} is not 1", axis, type().str()));
  }
  dims.erase(dims.begin() + place);
  return reshape_to(*this, std::move(dims), where);
}

Tensor Tensor::unsqueeze(int axis, Location where) const {
  std::vector<int64_t> dims = shape().dims();
  dims.insert(dims.begin() + resolve_axis("unsqueeze", axis, rank() + 1, where), 1);
  return reshape_to(*this, std::move(dims), where);
}

Tensor Tensor::flatten(int from, int to, Location where) const {
  const int first = resolve_axis("flatten", from, rank(), where);
  const int last = resolve_axis("flatten", to, rank(), where);
  std::vector<int64_t> dims(shape().dims().begin(), shape().dims().begin() + first);
  dims.push_back(-1);
  dims.insert(dims.end(), shape().dims().begin() + last + 1, shape().dims().end());
  return reshape(std::move(dims), where);
}

Tensor Tensor::slice(int axis, int64_t from, int64_t to, Location where) const {
  const int64_t place = resolve_axis("slice", axis, rank(), where);
  const int64_t size = shape()[static_cast<int>(place)];
  if (from < 0) from += size;
  if (to < 0) to += size;
  return emit_at(where, "slice", {*this}, {{"axis", place}, {"start", from}, {"end", to}});
}

std::vector<Tensor> Tensor::split(int64_t size, int axis, Location where) const {
  if (size < 1) refuse(where, fmt::format("[split] size {}: use 1 or more", size));
  const int64_t total = shape()[resolve_axis("split", axis, rank(), where)];
  std::vector<int64_t> sizes(total / size, size);
  if (total % size != 0) sizes.push_back(total % size);
  return split(sizes, axis, where);
}

std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int axis,
                                  Location where) const {
  const int64_t place = resolve_axis("split", axis, rank(), where);
  return trace().emit_all("split_with_sizes", {*this}, {{"axis", place}, {"sizes", sizes}}, where);
}

Tensor Tensor::to(ir::DType target, Location where) const {
  return dtype() == target ? *this : emit_at(where, "convert", {*this}, {{"dtype", target}});
}

Tensor Tensor::detach(Location where) const {
  return emit_at(where, "detach", {*this});
}
Tensor Tensor::sum(Location where) const {
  return trace::sum({*this, where});
}
Tensor Tensor::mean(Location where) const {
  return trace::mean({*this, where});
}

Tensor matmul(Argument a, Argument b) {
  return emit("matmul", {a, b});
}
Tensor embedding(Argument weight, Argument ids) {
  return emit("embedding", {weight, ids});
}

Tensor gather(Argument x, Argument index, int axis) {
  const Caller caller("gather", {x, index});
  const Tensor tensor = caller.read(x);
  const int64_t place = resolve_axis("gather", axis, tensor.rank(), x.where());
  return emit("gather", {tensor, index}, {{"axis", place}});
}

Tensor cat(const std::vector<Tensor>& parts, int axis, Location where) {
  if (parts.empty()) refuse(where, "[cat] no tensors: give one or more");
  const int64_t place = resolve_axis("cat", axis, parts[0].rank(), where);
  return emit_at(where, "cat", {parts.begin(), parts.end()}, {{"axis", place}});
}

Tensor stack(const std::vector<Tensor>& parts, int axis, Location where) {
  std::vector<Tensor> raised;
  for (const Tensor& part : parts) raised.push_back(part.unsqueeze(axis, where));
  return cat(raised, axis, where);
}

}  // namespace monograph::trace
