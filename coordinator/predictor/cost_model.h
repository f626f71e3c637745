#pragma once
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/predictor/device_links.h"
#include "coordinator/predictor/shared_ways.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/link/device_memory_strategy.h"
#include "runtime/ir/link/link_model.h"
#include "runtime/ir/link/message_protection.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/device_room.h"
#include "runtime/ir/plan/plan.h"

// What is known about a cluster and a job when a plan is predicted or chosen: measurements, no opinions. One
// value holds everything, so that a problem can be saved and replayed.
namespace medley {

// What was measured of a device that has a share of the width of the blocks.
struct ShareCost {
  ModelShare share;  // AtOrigin
  DeviceRoom room;
  std::vector<BlockTimes> times;  // parallel to PlanningProblem::micro_batch_sizes
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  friend bool operator==(const ShareCost&, const ShareCost&) = default;
};

struct DeviceCost {
  std::string name;  // "node/device"
  std::string kind;  // for people; devices of one have equal times, but for those that are slow among them
  // Devices with the same processor compute on the same cores and slow each other down.
  int processor = 0;
  int host = -1;          // devices with the same one are on one machine; -1: alone on its own
  int network_cards = 0;  // of its host; 0: not known
  int site = 0;           // devices with the same one share its way to other sites
  int rack = 0;           // of its site; devices of both share its way to other racks
  // How many times longer it computes while all of so many other devices of its host compute, too, that the
  // factor was measured beside; in between in proportion to how many do. 1: they do not slow it down.
  double shared_slowdown = 1;
  double shared_update_slowdown = 1;  // likewise of norms and updates, which memory bounds
  int shared_with = 0;
  DeviceRoom room;
  Dtype activations = Dtype::kF32;  // what it stores them as, and was measured with
  // Of whole blocks, parallel to PlanningProblem::micro_batch_sizes. Empty: they were not measured, and it can
  // take part in units of several devices alone.
  std::vector<BlockTimes> times;
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  std::vector<ShareCost> shares;  // that were measured beside
  // Of copies from host memory to the device while it does nothing else, and back; 0: not measured.
  double fetch_bytes_per_second = 0, store_bytes_per_second = 0;
  // On which it computes, and which make its copies: these take from each other. 0: it copies without them.
  int cores = 0;
  // Whether its memory is its own, out of the host's reach, and the library by which devices of its kind exchange such
  // memory, with its version; empty: none.
  bool has_own_memory = false;
  std::string group_library;
  // Of the device while a plan uses it, in whatever currency; 0: it is free, or its price is not known.
  double price_per_hour = 0;
  // Of its host, for layers that live there (Unit::window_layers); all devices of the host have it together. 0:
  // not known, and refuses nothing.
  Bytes host_memory;
};

// Whether two devices take the same time for everything, with whole blocks, and have the same memory
// and price; SameCost: at the same place, too.
bool SameCostAnywhere(const DeviceCost& a, const DeviceCost& b);
bool SameCost(const DeviceCost& a, const DeviceCost& b);

// Whether a device computes on cores, which then also make its copies, and exchange and add what it sums.
bool ComputesOnCores(const DeviceCost& device);

// How many times longer a device takes for what `shared` is of, its shared_slowdown or shared_update_slowdown, while
// `others` of its host compute, too.
double SlowdownBeside(const DeviceCost& device, double shared, int others);

// Sums of the same prices in another order are the same price, up to that factor.
constexpr double kSamePrice = 1 + 1e-9;

struct PlanConstraints {
  // Allowed; not empty.
  std::vector<Schedule> schedules = {std::begin(kPlannedSchedules), std::end(kPlannedSchedules)};
  // Whether the passes of the best plans found with those may be put in an order of their own (kListed).
  bool synthesised_orders = false;
  bool post_validation = false;  // and those go ahead of norms (Plan::post_validation)
  // Whether, where plans do not fit otherwise, units may recompute and have their layers in host memory, and units
  // that hold the same parameters share the optimizer's state.
  bool saves_memory = false;
  int max_routes = 0;  // 0: any number
  int max_stages = 0;  // 0: any number
  // Of all devices that a plan uses together. 0: any price.
  double most_price_per_hour = 0;
  int most_devices = 0;  // that a plan uses; 0: any number

  bool limit_devices() const { return most_price_per_hour > 0 || most_devices > 0; }
  // Whether they allow a plan of so many devices that cost so much together.
  bool Allow(int devices, double price_per_hour) const {
    return (most_devices == 0 || devices <= most_devices) &&
           (most_price_per_hour == 0 || price_per_hour <= most_price_per_hour * kSamePrice);
  }
};

// Parameters are gathered as f32, whatever gradients travel as.
inline constexpr double kGatheredBytesPerElement = 4;

struct PlanningProblem {
  TrainingShape shape;
  Precision precision = Precision::kF32;
  // Ascending; the planner chooses among those that divide the global batch.
  std::vector<int> micro_batch_sizes;
  std::vector<DeviceCost> devices;
  // By DeviceCost::site, for people. An empty one, or none: the site has no name.
  std::vector<std::string> site_names;
  DeviceLinks links;
  PlanConstraints constraints;
  // How gradients are summed, if not by what the links predict to be fastest, and as what they travel.
  std::optional<CollectiveAlgorithm> forced_all_reduce;
  double wire_bytes_per_element = 4;  // 2: bf16
  // Sums of gradients are charged what scattering them around a ring takes at least, where a bound is asked for that holds of plans that
  // share the optimizer's state in any parts, and whose gathers hide behind first forwards.
  bool charges_least_scatters = false;
  // How the job has memory of devices sent.
  DeviceMemoryStrategy device_memory = DeviceMemoryStrategy::kAutomatic;
  // Of messages between hosts; `links` were measured with it.
  MessageProtection message_protection = MessageProtection::kNone;
  // Of a part of a cluster while the rest of it is used, too: what its devices share. None: what the figures above say.
  std::optional<SharedWays> ways;
};

// How many devices of the problem are on the host of one of them, itself included; 1 where that is not known.
int DevicesOnHostOf(const PlanningProblem& problem, const DeviceCost& device);
// What a device may have of its host's memory, an equal part of it; infinite: it is not known.
double HostBytesFor(const PlanningProblem& problem, const DeviceCost& device);

// The device of that name; null: the problem has none.
const DeviceCost* FindDevice(const PlanningProblem& problem, const std::string& name);
// The places of the devices in the problem, for who looks for many of them.
std::unordered_map<std::string, int> DevicesByName(const PlanningProblem& problem);

// Of all devices that `plan` uses.
double PricePerHour(const PlanningProblem& problem, const Plan& plan);

// What the constraints have against a plan, of the number of its routes, stages and devices, what these cost, and its schedule; names the
// field, the value and what is allowed. Empty: nothing.
std::string ConstraintObjection(const PlanningProblem& problem, const Plan& plan);

// The same problem on these devices alone, in this order.
PlanningProblem OnDevices(const PlanningProblem& problem, const std::vector<int>& devices);

// The host of a device; of one without, a negative number of its own.
inline int HostOf(const PlanningProblem& problem, int device) {
  const int host = problem.devices[device].host;
  return host >= 0 ? host : -1 - device;
}

// Of some devices, in their order, those of each host (HostOf).
std::map<int, std::vector<int>> DevicesByHost(const PlanningProblem& problem,
                                              const std::vector<int>& devices);

// Of each device its place among all, hosts behind each other: by the least of their ends, so that those that reach others alike are side by
// side, the largest of these first, and then by number. In that order predictions take it that who shares a slice is numbered; of its first
// holders pairs are folded, where their number is no power of two, and large hosts are left with a round number of these.
std::vector<int> PlacesByHost(const PlanningProblem& problem);

// Two devices for each kind of link that there is: between two ends, within a host or not.
struct LinkedDevices {
  int a = 0, b = 0;
  bool within_host = false;
};
std::vector<LinkedDevices> KindsOfLinks(const PlanningProblem& problem);
// Of links between `devices` alone, each of which is there once.
std::vector<LinkedDevices> KindsOfLinks(const PlanningProblem& problem, const std::vector<int>& devices);

// Of the passes of one block.
inline const PassTimes& TimesOf(const BlockTimes& times, const ModelConfig& model, BlockId block) {
  return block == model.embedding_block() ? times.embedding
         : block == model.head_block()    ? times.head
                                          : times.layer;
}

// What recomputing adds to the backward of one layer of a micro-batch of `sequences`: what was measured, or else its part of the
// FLOPs of a forward, which takes as `layer` says.
double RecomputeSeconds(const ModelConfig& model, int64_t sequences, int64_t sequence, const PassTimes& layer,
                        Recompute recompute);

// What a rank costs on a device. Refers to the device's DeviceCost, which must outlive it.
struct RankCosts {
  const DeviceRoom& room;
  const std::vector<BlockTimes>& times;
  double update_seconds_per_parameter;
  double norm_seconds_per_parameter;
};
// Of a rank that has `share` of the width of `model`; none: that was not measured.
std::optional<RankCosts> CostsOf(const DeviceCost& device, const ModelConfig& model, const ModelShare& share);

// Whether the whole batch can be cut into micro-batches of this size. Sizes that do not are of pinned plans
// that mix them.
inline bool DividesBatch(const PlanningProblem& problem, int micro_batch_sequences) {
  return problem.shape.global_batch_sequences % micro_batch_sequences == 0;
}

}  // namespace medley
