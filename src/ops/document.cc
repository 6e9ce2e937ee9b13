#include "ops/document.h"

#include <vector>

#include "ops/registry.h"

namespace monograph::ops {
namespace {

std::string traits_text(const OpDef& op) {
  constexpr std::pair<Trait, std::string_view> kNames[] = {{kPointwise, "pointwise"},
                                                           {kReduction, "reduction"},
                                                           {kViewLike, "view-like"},
                                                           {kGather, "gather"},
                                                           {kCommutative, "commutative"},
                                                           {kCreation, "creation"},
                                                           {kLibrary, "library"},
                                                           {kCollective, "collective"},
                                                           {kStart, "start"},
                                                           {kInPlace, "in place"},
                                                           {kDone, "done"}};
  std::vector<std::string_view> names;
  for (const auto& [trait, name] : kNames) {
    if (op.has(trait)) names.push_back(name);
  }
  if (op.placements != nullptr || op.has(kPointwise)) names.push_back("divided over ranks");
  if (op.gradient == nullptr) names.push_back("no gradient");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string signature(const OpDef& op) {
  std::string text = fmt::format("{}({})", op.name, fmt::join(op.operands, ", "));
  std::vector<std::string> attributes;
  for (const AttributeSpec& spec : op.attributes) {
    attributes.push_back(
        fmt::format("{}{}: {}", spec.name, spec.is_optional ? "?" : "", kind_name(spec.kind)));
  }
  if (!attributes.empty()) text += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
  return text;
}

}  // namespace

std::string document_ops() {
  std::string text =
      "# Ops\n\n"
      "Made from the registry by `document_ops > docs/ops.md`; a test compares the two.\n\n"
      "Names and semantics follow core ATen where it has the op. Operands broadcast only where it "
      "says so; nothing is\npromoted: mixed dtypes are an error that names the `convert` to write. "
      "Axes are never negative in the graph.\n\n"
      "| op | does | traits |\n|---|---|---|\n";
  for (const OpDef* op : all_ops()) {
    text += fmt::format("| `{}` | {} | {} |\n", signature(*op), op->doc, traits_text(*op));
  }
  return text;
}

}  // namespace monograph::ops
