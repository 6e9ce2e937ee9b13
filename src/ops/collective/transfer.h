#pragma once

#include <set>
#include <string>

#include "ops/collective/collective.h"

// A send and its recv: the collectives in which two ranks of an axis do different things.
namespace monograph::ops {

// The other side's place on the axis; what both sides call it, where they say so.
inline constexpr AttributeSpec kPeer = {"peer", AttributeKind::kInt};
inline constexpr AttributeSpec kTag = {"tag", AttributeKind::kString, true};

void check_peer(const InferContext& context);

// Attributes of the transfer of the gradient, between the same two ranks.
ir::Attributes way_back(const ir::Node& node);

// A send or a recv, or the start of one.
bool is_transfer(const ir::Node& node);
// The mesh axes that the graph has any over: their ranks run different steps.
std::set<std::string> axes_of_transfers(const ir::Graph& graph);

}  // namespace monograph::ops
