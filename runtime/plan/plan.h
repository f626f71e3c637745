#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/model_config.h"

// A plan is units and routes; everything else about an execution is derived from them.
namespace medley {

// The order in which a unit runs the forwards and backwards of a step.
enum class Schedule : uint8_t {
  kOneForwardOneBackward,  // Narayanan et al. 2021: few activations alive
  kGPipe,                  // Huang et al. 2019: all forwards, then all backwards
};
constexpr int kSchedules = 2;

// A device that holds contiguous blocks of the model. (A tensor-parallel group of one.)
struct Unit {
  std::string device;  // "node/device", as the cluster names it
  BlockRange blocks;
  friend bool operator==(const Unit&, const Unit&) = default;
};

// Micro-batches that visit the same units in the same order: one replica of the model.
// Micro-batches, and the sequences in them, are numbered through the routes: route 0 takes the first ones of the global batch.
struct Route {
  std::vector<int> units;         // indices into Plan::units, in the order of visiting
  int micro_batches = 0;          // of each step
  int micro_batch_sequences = 0;  // in each of them
  friend bool operator==(const Route&, const Route&) = default;
};

struct Plan {
  Schedule schedule = Schedule::kOneForwardOneBackward;
  std::vector<Unit> units;    // a unit's index is also its rank in the attempt
  std::vector<Route> routes;  // in this version a unit belongs to exactly one
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Where a unit stands.
struct Position {
  int route = -1;
  int stage = -1;              // index into Route::units
  int stages = 0;
  int first_micro_batch = 0;   // of the step, over all routes
  int micro_batches = 0;
  int micro_batch_sequences = 0;
  int first_sequence = 0;      // of the global batch, in the first micro-batch
};
// Route -1 if no route visits `unit`.
Position PositionOf(const Plan& plan, int unit);

// Units that hold `segment` (runtime/model/parameters.h), ascending.
std::vector<int> HoldersOf(const Plan& plan, const ModelConfig& config, int segment);

// The sequences in a micro-batch of each size that the routes have, ascending.
std::vector<int> MicroBatchSizesOf(const Plan& plan);

// "2 routes, micro-batch 4, 1F1B: [a/cpu0 blocks 0-3 -> b/cpu0 blocks 4-7] x 6 | [c/cpu0 blocks 0-7] x 2"; where routes differ in
// their micro-batch size, "... micro-batches 1, 4 ...] x 6 of 4 | ...] x 8 of 1".
std::string Describe(const Plan& plan);
std::string NameOf(Schedule schedule);  // "1f1b", "gpipe"

}  // namespace medley
