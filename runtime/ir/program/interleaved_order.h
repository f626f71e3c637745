#pragma once
#include <vector>

#include "runtime/ir/plan/unit_op.h"
#include "runtime/ir/program/timed_pipeline.h"

namespace medley {

// Interleaved 1F1B as published (Narayanan et al. 2021, section 2.2; Megatron-LM,
// forward_backward_pipelining_with_interleaving): of pipelines with one route that goes through all units in
// the same turn several times, and whose micro-batches the units divide. Groups of as many micro-batches as
// there are units go through the first ranges, then through the second; a unit runs
// 2 (units - place - 1) + (ranges - 1) units forwards, then forwards and backwards in turn, then what is left.
// Empty: the pipeline is none of these.
std::vector<UnitOrder> PublishedInterleavedOrders(const TimedPipeline& pipeline);

}  // namespace medley
