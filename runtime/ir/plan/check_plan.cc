#include "runtime/ir/plan/check_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/counted.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/check_orders.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

using Kind = PlanViolation::Kind;

// "parameters 1.0 GiB, gradients 1.0 GiB, ...", all that a rank takes of its device, as plans are told.
std::string DescribeParts(const RankMemory& memory, const DeviceRoom& room) {
  const std::pair<const char*, Bytes> parts[] = {
      {"parameters", memory.parameters},
      {"gradients", memory.gradients},
      {"optimizer", memory.optimizer},
      {"activations", memory.activations},
      {"boundaries", memory.boundaries},
      {"workspace", memory.workspace + memory.logits + memory.conversions +
                        room.WorkspaceFor(memory.micro_batch_sequences)},
      {"copies for products", room.CopiesOf(memory.multiplied)}};
  std::vector<std::string> texts;
  for (const auto& [part, bytes] : parts) {
    if (bytes > Bytes{0}) texts.push_back(absl::StrCat(part, " ", FormatBytes(bytes)));
  }
  return absl::StrJoin(texts, ", ");
}

class Checker {
 public:
  // Without a site, what depends on one is not looked at.
  Checker(const Plan& plan, const TrainingShape& shape, const PlanSite* site)
      : plan_(plan), shape_(shape), site_(site) {}

  std::vector<PlanViolation> Run() {
    if (plan_.units.empty()) Convict(Kind::kEmpty, "units: there are none; a plan needs at least one");
    if (plan_.routes.empty()) Convict(Kind::kEmpty, "routes: there are none; a plan needs at least one");
    CheckDevices();
    CheckShares();
    CheckChunks();
    CheckRoutes();
    CheckBatch();
    CheckExchangeParts();
    CheckOptimizerWeights();
    CheckRecompute();
    CheckHomedLayers();
    CheckWindows();
    CheckPostValidation();
    // Orders are held against visits, of which a plan in order has some.
    if (violations_.empty()) CheckOrders();
    // A program can be compiled only for a plan that is otherwise in order.
    if (violations_.empty() && site_ != nullptr) CheckMemory();
    return std::move(violations_);
  }

 private:
  void Convict(Kind kind, std::string detail, UnitId unit = -1) {
    violations_.push_back({kind, std::move(detail), unit});
  }

  bool IsUnit(UnitId unit) const { return unit >= 0 && unit < static_cast<int>(plan_.units.size()); }

  void CheckDevices() {
    std::map<std::string, size_t> unit_of_device;
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const auto& devices = plan_.units[u].devices;
      if (devices.empty())
        Convict(Kind::kEmpty,
                absl::StrCat("units[", u, "].devices: there are none; a unit needs at least one"));
      for (const std::string& device : devices) {
        if (site_ != nullptr && !site_->room_by_device.count(device)) {
          Convict(Kind::kUnknownDevice,
                  absl::StrCat("units[", u, "].devices: \"", device, "\" is not in the cluster"));
        }
        const auto [first, inserted] = unit_of_device.emplace(device, u);
        if (inserted) continue;
        Convict(Kind::kDeviceTwice,
                absl::StrCat("units[", u, "].devices: \"", device, "\" is already in units[", first->second,
                             "]; a device belongs to one unit at most, and once"));
      }
    }
  }

  void CheckChunks() {
    const int blocks = shape_.model.blocks();
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const auto& chunks = plan_.units[u].chunks;
      if (chunks.empty())
        Convict(Kind::kBlocks,
                absl::StrCat("units[", u, "].blocks: there are none; a unit needs at least one range"));
      BlockId least = 0;
      for (const BlockRange& range : chunks) {
        if (range.first < least || range.end <= range.first || range.end > blocks) {
          Convict(
              Kind::kBlocks,
              absl::StrCat("units[", u, "].blocks: [", range.first.value(), ", ", range.end.value(),
                           "); a range must begin at ", least.value(),
                           " or later and end after it, at most at ", blocks,
                           least > 0 ? "; ranges ascend and have blocks of other units between them" : ""));
          break;
        }
        least = range.end + 1;
      }
    }
  }

  void CheckShares() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const Unit& unit = plan_.units[u];
      if (unit.sequence_parallel && unit.devices.size() == 1) {
        Convict(Kind::kSequenceParallel,
                absl::StrCat(
                    "units[", u,
                    "].sequence_parallel: true; the unit has 1 device, and rows are cut among at least 2"));
      }
      const std::string objection = SharingObjection(shape_.model, static_cast<int>(unit.devices.size()));
      if (!objection.empty()) Convict(Kind::kShares, absl::StrCat("units[", u, "].devices: ", objection));
      if (unit.shares.empty()) continue;
      if (unit.shares.size() != unit.devices.size()) {
        Convict(Kind::kShares, absl::StrCat("units[", u, "].shares: there are ", unit.shares.size(), " for ",
                                            Counted(unit.devices.size(), "device")));
        continue;
      }
      const auto check = [&](const char* field, IndexRange ModelShare::*part, int whole) {
        int covered = 0;
        for (size_t m = 0; m < unit.shares.size(); ++m) {
          const IndexRange& range = unit.shares[m].*part;
          if (range.first == covered && range.size() > 0) {
            covered = range.end;
            continue;
          }
          return Convict(Kind::kShares,
                         absl::StrCat("units[", u, "].shares[", m, "].", field, ": [", range.first, ", ",
                                      range.end, "); must begin at ", covered, " and not be empty"));
        }
        if (covered == whole) return;
        Convict(Kind::kShares,
                absl::StrCat("units[", u, "].shares: take ", covered, " ", field, "; the model has ", whole));
      };
      if (unit.shares.front().query_heads.size() > 0) {
        check("query_heads", &ModelShare::query_heads, shape_.model.heads);
        CheckKeysOfQueries(u);
      } else {
        check("key_value_heads", &ModelShare::key_value_heads, shape_.model.key_value_head_count());
      }
      check("feed_forward", &ModelShare::feed_forward, shape_.model.feed_forward);
      check("vocabulary", &ModelShare::vocabulary, shape_.model.vocabulary);
    }
  }

  // Every key-value head of a rank is attended to by as many of its query heads.
  void CheckKeysOfQueries(size_t u) {
    const std::vector<ModelShare>& shares = plan_.units[u].shares;
    for (size_t m = 0; m < shares.size(); ++m) {
      const IndexRange& heads = shares[m].query_heads;
      if (AttendAlike(shape_.model, heads)) continue;
      Convict(Kind::kShares, absl::StrCat("units[", u, "].shares[", m, "].query_heads: [", heads.first, ", ",
                                          heads.end, "); must be some of one key-value head's ",
                                          shape_.model.heads / shape_.model.key_value_head_count(),
                                          ", or all of several ones'"));
    }
  }

  // Every route covers the model with one chunk after another, and every chunk is on some route.
  void CheckRoutes() {
    std::vector<std::vector<bool>> visited;
    for (const Unit& unit : plan_.units) visited.emplace_back(unit.chunks.size(), false);
    for (size_t r = 0; r < plan_.routes.size(); ++r) CheckRoute(r, visited);
    if (!violations_.empty()) return;  // what no route visits may follow from that
    for (size_t u = 0; u < visited.size(); ++u) {
      for (size_t c = 0; c < visited[u].size(); ++c) {
        if (visited[u][c]) continue;
        const BlockRange& range = plan_.units[u].chunks[c];
        Convict(Kind::kUnitUse, absl::StrCat("units[", u, "]: no route visits it for blocks [",
                                             range.first.value(), ", ", range.end.value(), ")"));
      }
    }
  }

  void CheckRoute(size_t r, std::vector<std::vector<bool>>& visited) {
    const int blocks = shape_.model.blocks();
    BlockId covered = 0;
    for (const UnitId u : plan_.routes[r].units) {
      if (!IsUnit(u)) {
        return Convict(Kind::kUnitUse,
                       absl::StrCat("routes[", r, "].units: ", u.value(), " is not a unit; allowed are 0 to ",
                                    static_cast<int>(plan_.units.size()) - 1));
      }
      const auto& chunks = plan_.units[u].chunks;
      size_t c = 0;
      while (c < chunks.size() && chunks[c].first != covered) ++c;
      if (c == chunks.size()) {
        std::vector<std::string> held;
        for (const BlockRange& range : chunks)
          held.push_back(absl::StrCat("[", range.first.value(), ", ", range.end.value(), ")"));
        return Convict(Kind::kBlocks, absl::StrCat("routes[", r, "]: unit ", u.value(), " holds blocks ",
                                                   absl::StrJoin(held, ", "),
                                                   "; one of its ranges must begin at ", covered.value()));
      }
      visited[u][c] = true;
      covered = chunks[c].end;
    }
    if (covered == blocks) return;
    Convict(Kind::kBlocks, absl::StrCat("routes[", r, "]: covers blocks [0, ", covered.value(),
                                        "); must cover [0, ", blocks, ")"));
  }

  void CheckBatch() {
    const int64_t batch = shape_.global_batch_sequences;
    int64_t sequences = 0;
    std::vector<std::string> sums;
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      const int64_t count = plan_.routes[r].micro_batches, size = plan_.routes[r].micro_batch_sequences;
      sequences += count * size;
      sums.push_back(absl::StrCat(count, " x ", size));
      if (size < 1) {
        Convict(Kind::kMicroBatch,
                absl::StrCat("routes[", r, "].micro_batch_sequences: ", size, "; must be at least 1"));
      }
      for (const UnitId u : plan_.routes[r].units) {
        if (!IsUnit(u)) continue;
        const int64_t rows = size * shape_.sequence,
                      devices = static_cast<int64_t>(plan_.units[u].devices.size());
        if (size < 1 || rows >= devices) continue;
        Convict(Kind::kMicroBatch,
                absl::StrCat("routes[", r, "].micro_batch_sequences: ", size, "; a micro-batch of ", rows,
                             " tokens cannot be shared by the ", devices, " devices of unit ", u.value()));
      }
      if (count < 1) {
        Convict(Kind::kBatchSum,
                absl::StrCat("routes[", r, "].micro_batches: ", count, "; must be at least 1"));
      }
    }
    if (sequences == batch) return;
    Convict(Kind::kBatchSum,
            absl::StrCat("routes: take ", absl::StrJoin(sums, " + "), " = ", sequences,
                         " sequences (micro_batches x micro_batch_sequences); must be the global batch of ",
                         batch));
  }

  void CheckExchangeParts() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const Unit& unit = plan_.units[u];
      const auto convict = [&](auto... why) {
        Convict(Kind::kExchangeParts,
                absl::StrCat("units[", u, "].exchange_parts: ", unit.exchange_parts, "; ", why...));
      };
      if (unit.exchange_parts < 1) {
        convict("must be at least 1");
        continue;
      }
      if (unit.exchange_parts == 1) continue;
      if (unit.devices.size() == 1) convict("must be 1 for a unit of 1 device, which exchanges nothing");
      if (unit.sequence_parallel) convict("must be 1 where sequence_parallel is true");
      for (size_t r = 0; r < plan_.routes.size(); ++r) {
        const Route& route = plan_.routes[r];
        const bool visits =
            std::find(route.units.begin(), route.units.end(), static_cast<int>(u)) != route.units.end();
        const int64_t rows = int64_t{route.micro_batch_sequences} * shape_.sequence;
        if (!visits || rows >= unit.exchange_parts) continue;
        convict("at most ", rows, ", as many as a micro-batch of routes[", r, "] has tokens");
      }
    }
  }

  void CheckOrders() {
    for (std::string& objection : OrderObjections(plan_)) Convict(Kind::kOrder, std::move(objection));
  }

  // Of the units that hold the same parameters one carries the optimizer's state, if it is sharded.
  void CheckOptimizerWeights() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const int weight = plan_.units[u].optimizer_weight;
      if (weight >= 0 && weight <= kMostOptimizerWeight) continue;
      Convict(Kind::kOptimizerWeight, absl::StrCat("units[", u, "].optimizer_weight: ", weight,
                                                   "; allowed are 0 to ", kMostOptimizerWeight));
    }
    // Who holds what is known only of units and ranges that are in order.
    if (!plan_.shards_optimizer || !violations_.empty()) return;
    std::vector<UnitId> told;
    for (SegmentId segment = 0; segment < SegmentCount(shape_.model); ++segment) {
      if (SegmentElements(shape_.model, segment) == 0) continue;
      const std::vector<UnitId> holders = HoldersOf(plan_, shape_.model, segment);
      const bool carried = std::any_of(holders.begin(), holders.end(),
                                       [&](UnitId unit) { return plan_.units[unit].optimizer_weight > 0; });
      if (carried || holders.size() < 2 || holders == told) continue;
      told = holders;
      Convict(Kind::kOptimizerWeight,
              absl::StrCat(
                  "units[", holders.front().value(), "].optimizer_weight: 0, as that of all of units ",
                  absl::StrJoin(holders, ", ",
                                [](std::string* out, UnitId unit) { absl::StrAppend(out, unit.value()); }),
                  ", which hold the same parameters; one of them must have at least 1"));
    }
  }

  void CheckRecompute() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const Unit& unit = plan_.units[u];
      const bool recomputes = unit.recompute != Recompute::kNone;
      const int layers = recomputes ? LayersOf(unit, shape_.model) : 0;
      if (unit.recomputed_layers >= 0 && unit.recomputed_layers <= layers) continue;
      Convict(Kind::kRecompute, absl::StrCat("units[", u, "].recomputed_layers: ", unit.recomputed_layers,
                                             recomputes ? absl::StrCat("; allowed are 0 to ", layers,
                                                                       ", the layers that the unit holds")
                                                        : "; it must be 0, as its recompute is none"));
    }
  }

  void CheckHomedLayers() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const Unit& unit = plan_.units[u];
      const bool homes = unit.activations_home == ActivationsHome::kHost;
      const int layers = homes ? LayersOf(unit, shape_.model) : 0;
      if (unit.homed_layers >= 0 && unit.homed_layers <= layers) continue;
      Convict(Kind::kHomedLayers, absl::StrCat("units[", u, "].homed_layers: ", unit.homed_layers,
                                               homes ? absl::StrCat("; allowed are 0 to ", layers,
                                                                    ", the layers that the unit holds")
                                                     : "; it must be 0, as its activations_home is device"));
    }
  }

  void CheckWindows() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const Unit& unit = plan_.units[u];
      const int layers = LayersOf(unit, shape_.model);
      // Without windows all that lives elsewhere would stay on the device.
      const bool elsewhere = unit.layers_home != LayersHome::kHost && layers > 0;
      const int least = elsewhere ? 1 : 0;
      if (unit.window_layers >= least && unit.window_layers <= layers) continue;
      Convict(Kind::kWindow,
              absl::StrCat("units[", u, "].window_layers: ", unit.window_layers, "; allowed are ", least,
                           " to ", layers, ", the layers that the unit holds",
                           elsewhere ? ", as layers_home is not the host" : ""));
    }
    // Who holds what is known only of units and ranges that are in order.
    if (violations_.empty()) CheckHomes();
  }

  // Layers that live with all of their holders are gathered and scattered by all of them, as often and in one order.
  void CheckHomes() {
    const auto named = [&](UnitId unit) { return absl::StrCat("units[", unit.value(), "].layers_home: "); };
    for (UnitId u = 0; u < static_cast<int>(plan_.units.size()); ++u) {
      if (!plan_.units[u].lives_on_peers()) continue;
      const bool activations_on_host = plan_.units[u].activations_home == ActivationsHome::kHost;
      std::string objection;
      if (!plan_.shards_optimizer) {
        objection = "the plan's shards_optimizer must be true";
      } else if (plan_.schedule != Schedule::kGPipe) {
        objection = absl::StrCat("the schedule must be gpipe, not ", NameOf(plan_.schedule));
      } else if (!PassesEachUnitOnce(plan_)) {
        objection = "routes must pass each unit once";
      } else if (plan_.routes.size() < 2) {
        objection = "there must be at least 2 routes to share them";
      } else if (activations_on_host && !HasWindowsForAllLayers(plan_, shape_.model)) {
        objection =
            "activations may live on the host only where each unit's window_layers are all of its layers";
      }
      if (!objection.empty())
        return Convict(Kind::kHome, absl::StrCat(named(u), "layers live on the peers; then ", objection));
    }
    for (BlockId layer = 0; layer < shape_.model.blocks(); ++layer) {
      if (!shape_.model.is_layer(layer)) continue;
      const std::vector<UnitId> holders = HoldersOf(plan_, shape_.model, SegmentOfBlock(layer));
      const auto home = [&](UnitId unit) {
        return plan_.units[unit].lives_on_peers() ? plan_.units[unit].layers_home : LayersHome::kHost;
      };
      for (const UnitId unit : holders) {
        if (home(unit) == home(holders.front())) continue;
        return Convict(Kind::kHome,
                       absl::StrCat(named(unit),
                                    "where layers live must be the same on the peers of all units that "
                                    "hold the same; unit ",
                                    holders.front().value(), " holds block ", layer.value(),
                                    ", too, and says ", "otherwise"));
      }
    }
  }

  // What goes ahead is undone on the device alone.
  void CheckPostValidation() {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      if (plan_.post_validation || plan_.units[u].forwards_ahead < 0) continue;
      Convict(Kind::kPostValidation,
              absl::StrCat("units[", u, "].forwards_ahead: ", plan_.units[u].forwards_ahead,
                           "; must be left out where the plan's post_validation is false"));
    }
    if (!plan_.post_validation) return;
    const auto convict = [&](std::string objection) {
      Convict(Kind::kPostValidation, absl::StrCat("post_validation: true; then ", objection));
    };
    if (plan_.shards_optimizer) convict("shards_optimizer must be false");
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const Unit& unit = plan_.units[u];
      if (unit.has_windows())
        convict(absl::StrCat("units[", u, "].window_layers must be 0, not ", unit.window_layers));
      if (unit.activations_home != ActivationsHome::kDevice)
        convict(absl::StrCat("units[", u, "].activations_home must be device"));
    }
  }

  // Of the ranks of a unit that lack memory, the one that lacks most.
  struct Shortage {
    int ranks = 0;
    Rank worst;
    Bytes lacking;

    void Add(Rank rank, Bytes more) {
      if (more <= Bytes{0}) return;
      ++ranks;
      if (more <= lacking) return;
      worst = rank;
      lacking = more;
    }
  };
  struct Shortages {
    Shortage total, buffer;
  };

  void ConvictOfMemory(int unit, const Shortage& shortage, const std::string& needed,
                       const std::string& allowed) {
    const std::string others =
        shortage.ranks > 1 ? absl::StrCat(" lacks most of ", shortage.ranks, " such devices and") : "";
    Convict(Kind::kMemory,
            absl::StrCat("units[", unit, "]: needs ", needed, " on ", DeviceOf(plan_, shortage.worst),
                         ", which", others, " allows ", allowed),
            unit);
  }

  void CheckMemory() {
    struct HostNeed {
      Bytes allowed, needed;
      std::vector<std::string> parts;  // of units
    };
    std::map<std::string, HostNeed> hosts;
    std::map<int, Shortages> shortages;  // by unit
    RankMemories memories(plan_, shape_);
    for (Rank rank = 0; rank < RankCount(plan_); ++rank) {
      const std::string& device = DeviceOf(plan_, rank);
      const RankMemory& memory = memories.Of(rank);
      const DeviceRoom& room = site_->room_by_device.at(device);
      const auto host = site_->host_by_device.find(device);
      if (memory.host > Bytes{0} && host != site_->host_by_device.end()) {
        HostNeed& need = hosts[host->second.host];
        need.allowed = host->second.memory;
        need.needed += memory.host;
        const UnitId unit = PlaceOf(plan_, rank).unit;
        const std::string field = plan_.units[unit].lives_on_host()
                                      ? absl::StrCat("window_layers: ", plan_.units[unit].window_layers)
                                      : "activations_home: host";
        need.parts.push_back(absl::StrCat("units[", unit.value(), "].", field, " keeps ",
                                          FormatBytes(memory.host), " for ", device));
      }
      if (Fits(memory, room)) continue;
      Shortages& of_unit = shortages[PlaceOf(plan_, rank).unit.value()];
      of_unit.total.Add(rank, memory.total() - room.LeftFor(memory.multiplied, memory.micro_batch_sequences));
      of_unit.buffer.Add(rank, BufferExcess(memory, room));
    }
    for (const auto& [unit, of_unit] : shortages) {
      const auto room_of = [&](Rank rank) { return site_->room_by_device.at(DeviceOf(plan_, rank)); };
      if (const Shortage& total = of_unit.total; total.ranks > 0) {
        const RankMemory& memory = memories.Of(total.worst);
        const DeviceRoom room = room_of(total.worst);
        ConvictOfMemory(unit, total, FormatBytes(room.memory + total.lacking),
                        absl::StrCat(FormatBytes(room.memory), ": ", DescribeParts(memory, room)));
      }
      if (const Shortage& buffer = of_unit.buffer; buffer.ranks > 0) {
        const LargestBuffer largest = LargestBufferOf(memories.Of(buffer.worst));
        ConvictOfMemory(unit, buffer,
                        absl::StrCat(FormatBytes(largest.bytes), " in one buffer (", largest.part, ")"),
                        FormatBytes(room_of(buffer.worst).largest_buffer));
      }
    }
    for (const auto& [host, need] : hosts) {
      if (need.allowed == Bytes{0} || need.needed <= need.allowed) continue;
      Convict(Kind::kHostMemory,
              absl::StrCat(absl::StrJoin(need.parts, ", "), "; the host of ", host, " needs ",
                           FormatBytes(need.needed), " of its memory for layers and activations, and has ",
                           FormatBytes(need.allowed)));
    }
  }

  const Plan& plan_;
  const TrainingShape& shape_;
  const PlanSite* const site_;
  std::vector<PlanViolation> violations_;
};

}  // namespace

std::vector<PlanViolation> CheckPlan(const Plan& plan, const TrainingShape& shape, const PlanSite& site) {
  return Checker(plan, shape, &site).Run();
}

std::vector<PlanViolation> CheckPlanForm(const Plan& plan, const TrainingShape& shape) {
  return Checker(plan, shape, nullptr).Run();
}

}  // namespace medley
