#pragma once
#include <string>

#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/model/model_share.h"

// What a cluster knows of its kinds of devices, and by what it is found. Pure.
namespace medley {

// The newest profile of `kind` and `shape` that has `micro_batch`, or any size if it is 0. Null if there is
// none. `times`: where not null, those of that size.
const DeviceProfile* FindProfile(const Cluster& cluster, const std::string& kind, const std::string& shape,
                                 int micro_batch, const ProfiledTimes** times);
// By which the copies of a kind go, and what exchanges its memory: as measured last, with whatever model, for neither knows of it.
// Null if no rate of them was measured.
const DeviceProfile* FindCopyProfile(const Cluster& cluster, const std::string& kind);

// What a device's profile for this job is kept under: everything that its passes' times depend on but the
// micro-batch size. "gpt2 hidden=256 heads=8 ff=1024 vocabulary=256 sequence=256 precision=f32", or in bf16
// "precision=bf16 activations=bf16" (where a device has it), or of a Llama with "heads=8:2x32": query heads,
// key-value heads, size of a head. The number of layers does not matter.
std::string ShapeKey(const TrainingSpec& spec);

// `spec` with the model as a rank sees it that has `share` of the width: such a rank's passes are those of a
// model of another shape, and are measured and kept as its.
TrainingSpec WithShare(TrainingSpec spec, const ModelShare& share);

}  // namespace medley
