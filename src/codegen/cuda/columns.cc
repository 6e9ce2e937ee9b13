#include "codegen/cuda/columns.h"

#include <fmt/ranges.h>

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
  return work.reads_kept && (comes_ahead(id) || text_.plan().is_buffered(id, work.sweep));
}

bool Columns::comes_ahead(int id) const {
  return contains(text_.map().loads_of_next_row, id);
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
  const std::vector<int> tests = column_tests(work);
  if (tests.empty()) {
    compute_columns(out, work, false);
  } else {
    std::vector<std::string> conditions;
    for (const int id : tests) conditions.push_back(may_hold(id, work.width));
    out.open("if ({}) {{", fmt::join(conditions, " || "));
    compute_columns(out, work, false);
    out.close();
    out.open("else {{");
    compute_columns(out, work, true);
    out.close();
  }
  keep_packs(out, work);
  for (const int id : work.sinks) {
    const Instruction& i = text_.at(id);
    if (is_max_of_packs(id, work)) {
      out.line("v{0} = max_of_pack(v{0}, {1});", id, pack_name(i.operands[0], work));
    }
    if (i.kind == Kind::kStore && i.access.inner_stride == 1) store_pack(out, id, work.width);
  }
}

std::vector<int> Columns::column_tests(const ColumnWork& work) const {
  std::vector<int> ids;
  if (work.width == 1) return ids;
  for (const int id : work.values) {
    const Instruction& i = text_.at(id);
    if (i.kind != Kind::kApply || i.op != ir::ScalarOp::kEq || is_held(id, work) ||
        text_.types().operation_type(id) != CType::kInt)
      continue;
    const auto is_number = [&](int operand) {
      const Instruction& index = text_.at(operand);
      return index.kind == Kind::kIndex && index.access.inner_stride == 1;
    };
    const auto is_fixed = [&](int operand) {
      return text_.at(operand).domain != ir::Domain::kElement;
    };
    const int a = i.operands[0], b = i.operands[1];
    if ((is_number(a) && is_fixed(b)) || (is_number(b) && is_fixed(a))) ids.push_back(id);
  }
  return ids;
}

std::string Columns::may_hold(int test, int width) const {
  const Instruction& i = text_.at(test);
  const int side = text_.at(i.operands[0]).domain == ir::Domain::kElement ? 0 : 1;
  return fmt::format("(u32){} - (u32)({}) < {}u", text_.operand(i.operands[1 - side], CType::kInt),
                     text_.element(text_.at(i.operands[side]).access, "column"), width);
}

bool Columns::is_new(int id, const ColumnWork& work) const {
  return contains(work.kept, id) && text_.at(id).kind != Kind::kLoad;
}

// With all column tests known to be false: what they select, and what is added to that.
Columns::Statements Columns::statements(const ColumnWork& work, bool is_false) const {
  const std::vector<int> tests = is_false ? column_tests(work) : std::vector<int>();
  std::vector<int> zeros;
  Statements result;
  for (const int id : work.values) {
    const Instruction& i = text_.at(id);
    if (i.kind == Kind::kConstant || text_.is_along_row(id)) continue;
    Statement statement{id, value(id, work), i.operands};
    const auto is_op = [&](ir::ScalarOp op) { return i.kind == Kind::kApply && i.op == op; };
    if (contains(tests, id)) statement = {id, "false", {}};
    if (is_op(ir::ScalarOp::kWhere) && contains(tests, i.operands[0])) {
      const Instruction& otherwise = text_.at(i.operands[2]);
      if (otherwise.kind == Kind::kConstant && otherwise.value == 0) zeros.push_back(id);
    }
    for (const int side : {0, 1}) {
      if (!is_op(ir::ScalarOp::kAdd) || !contains(zeros, i.operands[side])) continue;
      const int other = i.operands[1 - side];
      statement = {id, text_.operand(other), {other}};
    }
    result.values.push_back(std::move(statement));
  }
  for (const int id : work.sinks) {
    const Instruction& i = text_.at(id);
    const bool adds_nothing = i.kind != Kind::kStore && i.reduction == ir::Reduction::kSum &&
                              contains(zeros, i.operands[0]);
    if (!adds_nothing && !is_max_of_packs(id, work)) result.sinks.push_back(id);
  }
  drop_unused(result, work);
  return result;
}

void Columns::drop_unused(Statements& statements, const ColumnWork& work) const {
  std::vector<int> needed;
  for (const int id : statements.sinks) needed.push_back(text_.at(id).operands[0]);
  for (size_t v = statements.values.size(); v-- > 0;) {
    const Statement& value = statements.values[v];
    if (!contains(needed, value.id) && !is_new(value.id, work)) continue;
    needed.push_back(value.id);
    needed.insert(needed.end(), value.operands.begin(), value.operands.end());
  }
  std::erase_if(statements.values,
                [&](const Statement& value) { return !contains(needed, value.id); });
}

void Columns::compute_columns(SourceWriter& out, const ColumnWork& work, bool is_false) const {
  const Statements lines = statements(work, is_false);
  if (lines.values.empty() && lines.sinks.empty()) return;
  out.pragma("unroll");
  out.open("for (int i = 0; i < {}; ++i) {{", work.width);
  for (const Statement& value : lines.values) {
    out.line("const {} v{} = {};", text_.c_type(value.id), value.id, value.text);
    if (is_new(value.id, work)) out.line("{}.at[i] = v{};", pack_name(value.id, work), value.id);
  }
  for (const bool stores : {false, true}) {
    for (const int id : lines.sinks) {
      if ((text_.at(id).kind == Kind::kStore) == stores) sink(out, id);
    }
  }
  out.close();
}

bool Columns::is_max_of_packs(int id, const ColumnWork& work) const {
  const Instruction& i = text_.at(id);
  if (i.kind != Kind::kReduce || i.reduction != ir::Reduction::kMax || work.width == 1)
    return false;
  const Instruction& load = text_.at(i.operands[0]);
  return load.kind == Kind::kLoad && text_.dtype_of(load) == DType::kBF16 &&
         load.access.inner_stride == 1 && !text_.is_along_row(i.operands[0]);
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
