#include "compiler/pipeline.h"

#include "passes/collective/bucket_all_reduce.h"
#include "passes/collective/overlap_collectives.h"
#include "passes/collective/prefetch_units.h"
#include "passes/collective/remove_redundant_traffic.h"
#include "passes/collective/start_collectives.h"
#include "passes/fuse/fold_bias.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/isolate.h"
#include "passes/fuse/legalize_reductions.h"
#include "passes/fuse/move_converts.h"
#include "passes/fuse/scale_before_sum.h"
#include "passes/fuse/select_gathers.h"
#include "passes/fuse/store_indexed.h"
#include "passes/fuse/widen_products.h"
#include "passes/loss_head/chunk_loss_head.h"
#include "passes/memory/join_copies.h"
#include "passes/memory/rematerialize.h"
#include "passes/schedule/keep_frames.h"
#include "passes/schedule/schedule.h"
#include "passes/simplify/canonicalize.h"
#include "passes/simplify/drop_detach.h"
#include "passes/simplify/eliminate_dead_nodes.h"
#include "passes/simplify/fold_constants.h"
#include "passes/simplify/merge_equal_nodes.h"
#include "passes/simplify/simplify_algebra.h"

namespace monograph::compiler {
namespace {

constexpr PipelineStep kPipeline[] = {
    {"drop_detach", passes::drop_detach,
     "autodiff is done, and a detach hides what it stands between", true},
    {"canonicalize", passes::canonicalize, "the passes below know one form of each pattern"},
    {"fold_constants", passes::fold_constants,
     "gradients begin with ones, expanded: the algebra looks for constants"},
    {"simplify_algebra", passes::simplify_algebra, "operands are in order, constants visible"},
    {"canonicalize", passes::canonicalize, "the algebra makes reshapes and swaps forms"},
    {"fold_constants", passes::fold_constants, "the algebra moves constants next to each other"},
    {"merge_equal_nodes", passes::merge_equal_nodes, "equal computations have equal forms now"},
    {"remove_redundant_traffic", passes::remove_redundant_traffic,
     "zeros are constants by now, and equal exchanges are one"},
    {"eliminate_dead_nodes", passes::eliminate_dead_nodes,
     "later passes count users: those left behind are none"},
    {"legalize_reductions", passes::legalize_reductions,
     "kernels reduce the first or the last axes; views made here fuse like others", true},
    {"bucket_all_reduce", passes::bucket_all_reduce,
     "gradients have their final form; fusion would take their packing apart"},
    {"select_gathers", passes::select_gathers,
     "what is pointwise and what is a product is known now; its constants go along"},
    {"scale_before_sum", passes::scale_before_sum,
     "constants are on the right, and reductions have their final axes"},
    {"chunk_loss_head", passes::chunk_loss_head,
     "the loss and its gradient have their final form, and nothing is fused"},
    {"move_converts", passes::move_converts,
     "the loss head reads converts where they are; a product is widened only if its convert stays"},
    {"widen_products", passes::widen_products, "who reads a product is final"},
    {"fold_bias", passes::fold_bias, "fusion would take the addition for itself"},
    {"eliminate_dead_nodes", passes::eliminate_dead_nodes,
     "fold_bias leaves products; kernels take no node without users", true},
    {"store_indexed", passes::store_indexed,
     "no pass below makes an indexed read; kernels would swallow its operands", true},
    {"fuse", passes::fuse, "all pointwise and reduction nodes are final"},
    {"isolate", passes::isolate, "lowering takes kernels only, also with fuse switched off", true},
    {"schedule", passes::schedule, "the nodes are the steps of the Program now"},
    {"start_collectives", passes::start_collectives,
     "no pass above looks into two halves of a collective", true},
    {"overlap_collectives", passes::overlap_collectives, "the order of all other nodes is final"},
    {"prefetch_units", passes::prefetch_units,
     "it has begun all collectives as early as can be, and units would fill the memory"},
    {"keep_frames", passes::keep_frames,
     "starts and dones have moved; what is made again stands where it is read", true},
    {kRematerialize, passes::rematerialize,
     "lifetimes are known; it aims at nothing until the memory plan of the others is over budget"},
    {kJoinCopies, passes::join_copies, "values are made again, in kernels of their own"},
};

}  // namespace

std::span<const PipelineStep> pipeline() {
  return kPipeline;
}

}  // namespace monograph::compiler
