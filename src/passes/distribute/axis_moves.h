#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/placement.h"
#include "ops/builder.h"
#include "passes/pass.h"

namespace monograph::passes {

// Appends the nodes that change how a value lies over the ranks of an axis. Shapes are those of the
// whole value; `why` is the remark about the collective.
class AxisMoves {
 public:
  AxisMoves(ops::Builder& build, PassContext& context, std::string axis, int64_t size)
      : build_(build), context_(context), axis_(std::move(axis)), size_(size) {}

  const std::string& axis() const { return axis_; }
  int64_t size() const { return size_; }

  // Parts to the whole.
  ir::Value gather(ir::Value part, const ir::Placement& shard, const ir::Shape& whole,
                   std::string_view why);
  // Summands to their sum (or candidates to the largest).
  ir::Value reduce(ir::Value own, const ir::Placement& partial, std::string_view why);
  // The same, of which each rank gets a part.
  ir::Value scatter(ir::Value own, const ir::Placement& partial, const ir::Placement& shard,
                    std::string_view why);
  // The whole to this rank's part: nothing is sent.
  ir::Value cut(ir::Value whole, const ir::Placement& shard);
  // This rank's place on the axis, i64[].
  ir::Value coordinate();

 private:
  ir::Attributes attributes() const;
  ir::Attributes attributes(const ir::Placement& partial) const;
  ir::Value ranks_first(ir::Value whole, const ir::Placement& shard);

  ops::Builder& build_;
  PassContext& context_;
  const std::string axis_;
  const int64_t size_;
};

}  // namespace monograph::passes
