#include "codegen/cuda/columns.h"

#include <algorithm>

#include "base/error.h"

namespace monograph::codegen::cuda {
namespace {

using ir::DType;
using ir::Instruction;
using Kind = ir::InstructionKind;

bool contains(const std::vector<int>& ids, int id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

bool Columns::is_held(int id, const ColumnWork& work) const {
  return work.reads_kept && text_.plan().is_buffered(id, work.sweep);
}

std::vector<int> Columns::loads_ahead(const ColumnWork& work) const {
  std::vector<int> ids;
  for (const int id : work.values) {
    const Instruction& i = text_.at(id);
    const bool is_row_load = i.kind == Kind::kLoad && !text_.is_along_row(id) &&
                             varies_by_row(i.access) && !is_held(id, work);
    const bool is_flat_load =
        i.kind == Kind::kLoad && text_.map().is_flat && text_.loop().num_rows() == 1;
    const bool is_whole = i.access.inner_stride == 1 || contains(work.kept, id);
    if ((is_row_load || is_flat_load) && is_whole && i.access.inner_stride != 0) ids.push_back(id);
  }
  return ids;
}

bool Columns::is_ahead(int id, const ColumnWork& work) const {
  return !work.step.empty() && contains(loads_ahead(work), id);
}

std::string Columns::pack_type(int id, int width) const {
  const Instruction& i = text_.at(id);
  const std::string_view type =
      i.kind == Kind::kLoad ? storage_type_name(text_.dtype_of(i)) : text_.c_type(id);
  return fmt::format("Pack<{}, {}>", type, width);
}

void Columns::declare_packs(SourceWriter& out, const std::vector<int>& ids, int width,
                            const std::string& count) const {
  for (const int id : ids) out.line("{} p{}[{}];", pack_type(id, width), id, count);
}

std::string Columns::load_pack(int id, int width) const {
  const ir::Access& access = text_.at(id).access;
  return fmt::format("{}<{}>(b{} + ({}))",
                     text_.may_change(access.buffer) ? "load_pack" : "load_constant_pack", width,
                     access.buffer, text_.element(access, "column"));
}

std::string Columns::pack_name(int id, const ColumnWork& work) const {
  const bool is_in_registers = in_registers() && work.reads_kept;
  const bool is_kept = contains(work.kept, id) || is_held(id, work);
  if (is_kept && is_in_registers) return fmt::format("k{}{}", id, work.step);
  return is_ahead(id, work) ? fmt::format("p{}{}", id, work.step) : fmt::format("p{}", id);
}

void Columns::read_ahead(SourceWriter& out, const ColumnWork& work,
                         const std::vector<int>& ids) const {
  for (const int id : ids) {
    const ir::Access& access = text_.at(id).access;
    const std::string name = pack_name(id, work);
    if (access.inner_stride == 1) {
      out.line("{} = {};", name, load_pack(id, work.width));
    } else {
      out.line("for (int i = 0; i < {}; ++i) {}.at[i] = b{}[{}];", work.width, name, access.buffer,
               text_.element(access, "(column + i)"));
    }
  }
}

// Before the loop over the columns of a pack: the packs it takes apart.
void Columns::prepare_value(SourceWriter& out, int id, const ColumnWork& work) const {
  const Instruction& i = text_.at(id);
  if (is_held(id, work)) {
    if (in_registers()) return;
    out.line("const {} p{} = load_pack<{}>(k{} + column);", pack_type(id, work.width), id,
             work.width, id);
  } else if (i.kind == Kind::kLoad && !text_.is_along_row(id) && !is_ahead(id, work)) {
    if (i.access.inner_stride == 1) {
      out.line("const {} p{} = {};", pack_type(id, work.width), id, load_pack(id, work.width));
    } else if (contains(work.kept, id)) {
      out.line("{} p{};", pack_type(id, work.width), id);
      read_ahead(out, work, {id});
    }
  } else if (text_.makes_packs(id) && work.width % 4 == 0) {
    out.line("const Pack<float, {0}> u{1} = philox_pack<{0}>({2}, {3}, {4}, {5});", work.width, id,
             text_.element(i.access, "column"), text_.operand(i.operands[0]),
             text_.operand(i.operands[1]), text_.operand(i.operands[2]));
  }
  if (contains(work.kept, id) && !in_registers() && i.kind != Kind::kLoad) {
    out.line("{} p{};", pack_type(id, work.width), id);
  }
}

std::string Columns::value(int id, const ColumnWork& work) const {
  const Instruction& i = text_.at(id);
  const std::string in_pack = pack_name(id, work) + ".at[i]";
  if (i.kind == Kind::kLoad) {
    const bool is_packed =
        i.access.inner_stride == 1 || is_held(id, work) || contains(work.kept, id);
    return load_text(text_.dtype_of(i), is_packed
                                            ? in_pack
                                            : fmt::format("b{}[{}]", i.access.buffer,
                                                          text_.element(i.access, "(column + i)")));
  }
  if (is_held(id, work)) return in_pack;
  switch (i.kind) {
    case Kind::kIndex:
      return text_.element(i.access, "(column + i)");
    case Kind::kPhilox:
      if (text_.makes_packs(id) && work.width % 4 == 0) return fmt::format("u{}.at[i]", id);
      return text_.random(id, text_.element(i.access, "(column + i)"));
    default:
      return text_.apply(id);
  }
}

void Columns::compute(SourceWriter& out, const ColumnWork& work) const {
  for (const int id : work.values) prepare_value(out, id, work);
  for (const int id : work.sinks) {
    const Instruction& i = text_.at(id);
    if (i.kind != Kind::kStore || i.access.inner_stride != 1) continue;
    const DType dtype = text_.dtype_of(i);
    out.line("Pack<{}, {}> s{};", dtype == DType::kBF16 ? "float" : storage_type_name(dtype),
             work.width, id);
  }
  out.pragma("unroll");
  out.open("for (int i = 0; i < {}; ++i) {{", work.width);
  for (const int id : work.values) {
    if (text_.at(id).kind == Kind::kConstant || text_.is_along_row(id)) continue;
    out.line("const {} v{} = {};", text_.c_type(id), id, value(id, work));
    const bool is_new = contains(work.kept, id) && text_.at(id).kind != Kind::kLoad;
    if (is_new) out.line("{}.at[i] = v{};", pack_name(id, work), id);
  }
  for (const bool stores : {false, true}) {
    for (const int id : work.sinks) {
      if ((text_.at(id).kind == Kind::kStore) == stores) sink(out, id);
    }
  }
  out.close();
  keep_packs(out, work);
  for (const int id : work.sinks) {
    const Instruction& i = text_.at(id);
    if (i.kind == Kind::kStore && i.access.inner_stride == 1) store_pack(out, id, work.width);
  }
}

void Columns::keep_packs(SourceWriter& out, const ColumnWork& work) const {
  if (in_registers()) return;
  for (const int id : work.kept) out.line("store_pack(k{0} + column, p{0});", id);
}

void Columns::sink(SourceWriter& out, int id) const {
  const Instruction& i = text_.at(id);
  const std::string value = text_.operand(i.operands[0], text_.types().of(id));
  if (i.kind == Kind::kAccumulate) {
    out.line("{}", accumulators_.update(id, value));
  } else if (i.kind == Kind::kReduce) {
    if (i.reduction == ir::Reduction::kSum) {
      out.line("v{} += {};", id, value);
    } else {
      out.line("v{0} = {1};", id, text_.combined(id, fmt::format("v{}", id), value));
    }
  } else {
    const DType dtype = text_.dtype_of(i);
    const std::string plain = text_.operand(i.operands[0]);
    if (i.access.inner_stride == 1) {
      out.line("s{}.at[i] = {};", id, dtype == DType::kBF16 ? plain : store_text(dtype, plain));
    } else {
      out.line("b{}[{}] = {};", i.access.buffer, text_.element(i.access, "(column + i)"),
               store_text(dtype, plain));
    }
  }
}

void Columns::store_pack(SourceWriter& out, int id, int width) const {
  const Instruction& i = text_.at(id);
  const std::string pack = text_.dtype_of(i) == DType::kBF16
                               ? fmt::format("to_bf16_pack<{}>(s{})", width, id)
                               : fmt::format("s{}", id);
  out.line("store_pack(b{} + ({}), {});", i.access.buffer, text_.element(i.access, "column"), pack);
}

}  // namespace monograph::codegen::cuda
