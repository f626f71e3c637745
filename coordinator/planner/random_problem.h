#pragma once
#include <cstdint>

#include "coordinator/predictor/cost_model.h"

// Planning problems for tests, all from a seed.
namespace medley {

enum class RandomProcessors : uint8_t { kOwn, kSometimesShared };
// Shared: faster inside; devices of a kind are then not alike.
enum class RandomHosts : uint8_t { kOwn, kSometimesShared };
enum class RandomSlowdowns : uint8_t { kNone, kSometimes };
enum class RandomMemory : uint8_t { kPlenty, kSometimesTight };
// By kind, some of them 0; with limits to the devices that a plan may use and to their price, one or both.
enum class RandomPrices : uint8_t { kNone, kWithLimits };

struct RandomProblemOptions {
  int min_devices = 1, max_devices = 4;
  int kinds = 8;  // at most; devices of one kind are alike in everything
  int max_layers = 4;
  int max_micro_batches = 6;  // of the smallest micro-batch size
  RandomProcessors processors = RandomProcessors::kSometimesShared;
  RandomHosts hosts = RandomHosts::kSometimesShared;
  RandomSlowdowns slowdowns = RandomSlowdowns::kSometimes;  // between devices of one host
  RandomMemory memory = RandomMemory::kSometimesTight;
  RandomPrices prices = RandomPrices::kNone;
};

// Devices that are alike, each on a processor and a host of its own, with memory for anything.
inline RandomProblemOptions AlikeDevices(int devices) {
  return {.min_devices = devices,
          .max_devices = devices,
          .kinds = 1,
          .processors = RandomProcessors::kOwn,
          .hosts = RandomHosts::kOwn,
          .slowdowns = RandomSlowdowns::kNone,
          .memory = RandomMemory::kPlenty};
}

// Times, messages and reductions are of comparable length, so that each decides some problems.
PlanningProblem RandomProblem(uint64_t seed, const RandomProblemOptions& options = {});

// Three devices whose layers take 1, 1.3 and 1.6 s forward and twice that backward, half of it for the weights,
// and one way to use them: a pipeline of three stages with a layer each, 6 micro-batches.
// Passes may have an order of their own, and one makes it faster.
PlanningProblem UnevenPipeline();

// Two to six devices on hosts of their own, of a model of two layers at most, that may save memory.
PlanningProblem SmallProblem(uint64_t seed);

}  // namespace medley
