#include "codegen/sweep_plan.h"

namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::Instruction;
using ir::InstructionKind;

bool is_element_sink(const Instruction& i) {
  if (i.kind == InstructionKind::kReduce) return true;
  const bool is_sink = i.kind == InstructionKind::kStore || i.kind == InstructionKind::kAccumulate;
  return is_sink && i.domain == Domain::kElement;
}

// Measured on AVX-512: a function of libmvec costs about eight additions, a random number fifteen.
double cost_of(const Instruction& i) {
  if (i.kind == InstructionKind::kPhilox) return 15;
  if (i.kind == InstructionKind::kSegmentSum) return 4;
  if (i.kind == InstructionKind::kApply && ir::is_transcendental(i.op)) return 8;
  return i.kind == InstructionKind::kConstant ? 0 : 1;
}

}  // namespace

SweepPlan::SweepPlan(const ir::Loop& loop)
    : loop_(loop), sweeps_(loop.num_sweeps), is_filled_(loop.instructions.size(), false) {
  for (int s = 0; s < loop.num_sweeps; ++s) add_sweep(s);
  for (int id = 0; id < static_cast<int>(loop.instructions.size()); ++id) {
    if (loop.instructions[id].keep || is_filled_[id]) row_buffers_.push_back(id);
  }
}

bool SweepPlan::is_buffered(int id, int sweep) const {
  const Instruction& i = loop_.instructions[id];
  return i.kind == InstructionKind::kSegmentSum || (i.keep && i.sweep < sweep);
}

void SweepPlan::add_sweep(int number) {
  Sweep& sweep = sweeps_[number];
  std::vector<bool> is_needed(loop_.instructions.size(), false);
  // Backwards: a value is needed before its operands are looked at.
  for (int id = static_cast<int>(loop_.instructions.size()) - 1; id >= 0; --id) {
    const Instruction& i = loop_.instructions[id];
    const bool is_root = i.sweep == number && (is_element_sink(i) || i.keep);
    if (is_root) is_needed[id] = true;
    if (!is_needed[id] || is_buffered(id, number)) continue;
    for (const int operand : i.operands) {
      if (loop_.instructions[operand].domain == Domain::kElement) is_needed[operand] = true;
    }
  }
  for (int id = 0; id < static_cast<int>(loop_.instructions.size()); ++id) {
    if (!is_needed[id]) continue;
    const Instruction& i = loop_.instructions[id];
    if (is_element_sink(i)) {
      sweep.sinks.push_back(id);
      continue;
    }
    sweep.values.push_back(id);
    if (i.kind == InstructionKind::kSegmentSum) {
      if (!is_filled_[id]) sweep.segment_sums.push_back(id);
      is_filled_[id] = true;
    } else if (i.keep && i.sweep == number) {
      sweep.kept.push_back(id);
    }
  }
}

double SweepPlan::cost() const {
  double per_row = 2;
  for (const Sweep& sweep : sweeps_) {
    double per_element = 0;
    for (const int id : sweep.values) per_element += cost_of(loop_.instructions[id]);
    per_element += static_cast<double>(sweep.sinks.size());
    per_row += per_element * static_cast<double>(loop_.inner_extent) + 20;
  }
  return per_row * static_cast<double>(loop_.num_rows());
}

}  // namespace monograph::codegen
