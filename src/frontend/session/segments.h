#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/trace/host_read.h"
#include "ir/graph.h"

namespace monograph::session {

// A part of a traced step that runs without the host: it ends where the host reads a value, or with
// the step. Values pass between segments by name: outputs of one ("value.N") are inputs of others.
struct Segment {
  std::unique_ptr<ir::Graph> graph;
  // Its last outputs: what the host reads after it, in order. Empty for the last segment.
  std::vector<std::string> read;
};

// Cuts a graph at its host reads, in order: one segment for each read, and a last one with the
// graph's outputs and updates. Each segment has the nodes that its read needs and no segment before
// it had; constants are made again wherever they are used.
std::vector<Segment> cut_at_reads(const ir::Graph& graph,
                                  const std::vector<trace::HostRead>& reads);

// The part of a graph that `values` need, as a graph with these outputs ("read.0", ...).
std::unique_ptr<ir::Graph> extract(const ir::Graph& graph, const std::vector<ir::Value>& values);

}  // namespace monograph::session
