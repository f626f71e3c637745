#pragma once
#include "absl/status/statusor.h"
#include "proto/medley/v1/plan.pb.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

v1::Schedule EncodeSchedule(Schedule schedule);
// UNSPECIFIED is 1F1B. InvalidArgument: no schedule has this number.
absl::StatusOr<Schedule> DecodeSchedule(v1::Schedule schedule);

// The ranks of `plan`.
int DeviceCountOf(const v1::Plan& plan);

// Windows in a micro-batch of `route`, which is one of `plan`. 0: neither says.
uint32_t MicroBatchSequencesOf(const v1::Plan& plan, const v1::Route& route);

// Routes say their micro-batch size; if it is the same, so does the plan.
v1::Plan EncodePlan(const Plan& plan);

// `plan` must hold to its rules (runtime/wire/validate.h). Whether it suits a job is
// runtime/ir/plan/check_plan.h's to say. InvalidArgument, naming the field: a range that ends before it
// begins; an order's word that is no pass; a route's unit that does not exist; a route without a micro-batch
// size.
absl::StatusOr<Plan> DecodePlan(const v1::Plan& plan);

}  // namespace medley
