#pragma once
#include "coordinator/roofline/device_figures.h"
#include "coordinator/roofline/training_run.h"

// What a rank of a published run holds: its software's memory, not that of Medley's workers (runtime/ir/program/memory.h).
namespace medley {

// Activations that a layer keeps of one micro-batch on a rank, in bytes of 16-bit training with dropout: Korthikanti et
// al. 2022, table 2. Fused attention keeps no scores.
double KeptBytesOfLayer(const TrainingRun& run);

// Of the parts that make a device's memory, on the stage that needs most.
struct StageMemory {
  double parameters = 0;    // on the rank
  double kept_bytes = 0;    // activations of all micro-batches under way
  double logits_bytes = 0;  // of the last stage
};
StageMemory MemoryOfStage(const TrainingRun& run, int stage);

// Bytes of the device that needs most.
double MemoryBytes(const Calibration& calibration, const TrainingRun& run);

}  // namespace medley
