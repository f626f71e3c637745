#pragma once
#include "coordinator/roofline/block_work.h"
#include "coordinator/roofline/device_figures.h"
#include "coordinator/roofline/training_run.h"
#include "runtime/ir/cluster/device_profile.h"

// How long a device kind takes for what block_work.h counts.
namespace medley {

struct CalibratedDevice {
  DeviceFigures figures;
  Calibration calibration;
};

// What the device alone takes, never waiting for its host: each operation at the rate of what it does most of, and
// its overhead.
double ComputingSeconds(const CalibratedDevice& device, const RankPass& work);

// What the ranks of a stage take to sum what a pass exchanges: a ring over their node's links, or over the network
// if they are on several nodes.
double ExchangingSeconds(const CalibratedDevice& device, const TrainingRun& run, const RankPass& work);

// A message between stages, each rank sending its part.
double MessageSeconds(const CalibratedDevice& device, const TrainingRun& run);

// All replicas sum gradients of `parameters` on each rank. 0 where layers do so pass by pass.
double GradientSumSeconds(const CalibratedDevice& device, const TrainingRun& run, double parameters);

// Adam over `parameters`, in f32 with 16-bit copies.
double UpdateSeconds(const CalibratedDevice& device, const TrainingRun& run, double parameters);

// The passes of each block of one micro-batch on a rank, with what they exchange and, in the backward, what is made
// again. The host submits a pass while the device computes: the slower of them decides.
BlockTimes RooflineTimes(const CalibratedDevice& device, const TrainingRun& run);

}  // namespace medley
