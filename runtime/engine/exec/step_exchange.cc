#include "runtime/engine/exec/step_exchange.h"

#include <algorithm>
#include <utility>

#include "comm/collective/run_collective.h"
#include "comm/group/exchange_facts.h"
#include "comm/group/join_group.h"
#include "comm/group/run_in_group.h"
#include "comm/staging/exchange_terms.h"
#include "comm/staging/measure_copies.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/pinned_room.h"
#include "runtime/engine/exec/channels.h"
#include "runtime/engine/exec/slice_schedules.h"

namespace medley {
namespace {

WireType WireOf(const CommunicationSettings& settings) {
  return settings.gradient_wire == Precision::kBf16 ? WireType::kBf16 : WireType::kF32;
}

GroupFacts FactsOf(DeviceQueue& queue, const EndMemory& memory) {
  GroupFacts facts{
      .device = queue.name(), .host_reaches = memory.host_reaches, .network_reaches = memory.network_reaches};
  const absl::StatusOr<GroupLibrary*> library = queue.groups();
  if (library.ok()) {
    facts.library = (*library)->name();
    facts.identity = (*library)->device();
  } else {
    facts.objection = std::string(library.status().message());
  }
  return facts;
}

}  // namespace

StepExchange::StepExchange(const StepProgram& program, const std::vector<ReductionChoice>& reductions,
                           std::vector<std::vector<int>> units, std::vector<std::string> nodes,
                           const CommunicationSettings& settings, ModelShard& shard, Transport& transport)
    : program_(program),
      units_(std::move(units)),
      nodes_(std::move(nodes)),
      settings_(settings),
      shard_(shard),
      transport_(transport) {
  sums_.wire = WireOf(settings);
  for (const GradientSlice& slice : program.slices)
    members_.emplace_back(slice.holders.begin(), slice.holders.end());
  SliceSchedules schedules = SchedulesOf(program, reductions);
  sums_.schedules = std::move(schedules.sums);
  gathers_.schedules = std::move(schedules.gathers);
}

absl::Status StepExchange::Open(const std::function<void(const std::string&)>& tell, absl::Time deadline) {
  if (open_) return absl::OkStatus();
  Buffer& parameters = *shard_.arena().Whole(ParameterArena::Part::kParameter).buffer;
  ASSIGN_OR_RETURN(const EndMemory memory, MeasureMemory(shard_.queue(), parameters, transport_));
  ASSIGN_OR_RETURN(const Handling handling, ChooseHandling(memory, settings_.device_memory));
  ASSIGN_OR_RETURN(const std::vector<StagingTerms> terms,
                   ExchangeTerms(transport_, TermsOf(handling, memory.copies), deadline));
  for (const Instruction& instruction : program_.instructions) {
    std::unique_ptr<DeviceStream>& stream = streams_[static_cast<int>(instruction.stream)];
    if (instruction.peer < 0 || stream != nullptr) continue;
    ASSIGN_OR_RETURN(stream, DeviceStream::Open(shard_.queue(), transport_, terms));
  }
  RETURN_IF_ERROR(OpenGroups(memory, tell, deadline));
  std::vector<Mirrored> mirrored;
  FindBuckets(Part::kGradient, mirrored);
  if (!gathers_.schedules.empty()) FindBuckets(Part::kParameter, mirrored);
  RETURN_IF_ERROR(OpenMirrors(mirrored, memory.host_reaches));
  open_ = true;
  return absl::OkStatus();
}

absl::Status StepExchange::OpenGroups(const EndMemory& memory,
                                      const std::function<void(const std::string&)>& tell,
                                      absl::Time deadline) {
  GroupWayQuestion of_gradients{.device_memory = settings_.device_memory,
                                .wire = WireOf(settings_),
                                .algorithm = settings_.all_reduce,
                                .message_protection = settings_.message_protection};
  ASSIGN_OR_RETURN(of_gradients.facts,
                   ExchangeGroupFacts(transport_, FactsOf(shard_.queue(), memory), deadline));
  for (size_t rank = 0; rank < nodes_.size(); ++rank) of_gradients.facts[rank].node = nodes_[rank];
  RETURN_IF_ERROR(CheckSliceOrders(of_gradients.facts));
  // All ranks know of all units which of them are to exchange by a library, whether or not these then come together.
  for (const std::vector<int>& unit : units_) {
    const GroupWayQuestion of_passes{.use = GroupUse::kPasses,
                                     .members = unit,
                                     .facts = of_gradients.facts,
                                     .device_memory = settings_.device_memory,
                                     .message_protection = settings_.message_protection};
    if (ChooseGroupWay(of_passes).way == GroupWay::kLibrary) {
      std::vector<int>& busy = of_gradients.exchanging_in_passes;
      busy.insert(busy.end(), unit.begin(), unit.end());
    }
    if (std::find(unit.begin(), unit.end(), transport_.rank()) == unit.end()) continue;
    ASSIGN_OR_RETURN(unit_group_, OpenGroup(of_passes, tell, deadline));
  }
  for (int i = 0; i < static_cast<int>(members_.size()); ++i) {
    if (!SumsOnHosts(i)) groups_.try_emplace(members_[i]);
  }
  // In the order of the holders, which is one for all ranks.
  for (auto& [members, group] : groups_) {
    of_gradients.members = members;
    ASSIGN_OR_RETURN(group, OpenGroup(of_gradients, tell, deadline));
  }
  const auto on_hosts =
      std::find_if(program_.slices.begin(), program_.slices.end(),
                   [](const GradientSlice& slice) { return slice.sums_on_hosts && slice.runs.empty(); });
  if (tell && on_hosts != program_.slices.end()) {
    tell(on_hosts->on_peers ? "layers live with their holders, and are gathered and summed by way of the host"
                            : "gradients of layers are summed by way of the host: the layers of some of "
                              "their holders live there");
  }
  return absl::OkStatus();
}

Stream StepExchange::StreamOf(Part part, int slice) const {
  const bool has_window = program_.slices[slice].on_peers &&
                          (part == Part::kGradient || program_.buffers.home == LayersHome::kPeers);
  if (!has_window) return Stream::kCollective;
  return part == Part::kGradient ? Stream::kStore : Stream::kFetch;
}

absl::Status StepExchange::CheckSliceOrders(absl::Span<const GroupFacts> facts) const {
  for (const GradientSlice& slice : program_.slices) {
    if (slice.shares.empty() || slice.holders.size() < 3) continue;  // two have the same in any order
    for (const Rank holder : slice.holders) {
      if (const GroupFacts& of = facts[holder.value()]; of.slice_order != kSliceOrder)
        return absl::FailedPreconditionError(
            absl::StrCat("rank ", holder.value(), " (", of.device, nodes_.empty() ? "" : " of ",
                         nodes_.empty() ? "" : nodes_[holder.value()],
                         ") shares the optimizer's state in another order than this rank: its agent is of "
                         "another version of "
                         "Medley; upgrade the older one"));
    }
  }
  return absl::OkStatus();
}

// Those that share a slice are numbered in the order of their parts, in which a library takes them.
int StepExchange::NumberIn(const GroupWayQuestion& question) const {
  const std::vector<int>& members = question.members;
  const auto member =
      static_cast<int>(std::find(members.begin(), members.end(), transport_.rank()) - members.begin());
  bool shares = false;
  for (size_t i = 0; i < members_.size() && question.use == GroupUse::kGradients; ++i)
    shares |= !program_.slices[i].shares.empty() && members_[i] == members;
  if (!shares) return member;
  const std::vector<int> by_slice = MembersBySlice(static_cast<int>(members.size()));
  return static_cast<int>(std::find(by_slice.begin(), by_slice.end(), member) - by_slice.begin());
}

absl::StatusOr<std::unique_ptr<DeviceGroup>> StepExchange::OpenGroup(
    GroupWayQuestion question, const std::function<void(const std::string&)>& tell, absl::Time deadline) {
  GroupWayChoice choice = ChooseGroupWay(question);
  JoinedGroup joined;
  if (choice.way == GroupWay::kLibrary) {
    ASSIGN_OR_RETURN(GroupLibrary* const library, shard_.queue().groups());
    ASSIGN_OR_RETURN(joined, JoinGroup(transport_, *library, question.members, deadline, NumberIn(question)));
    question.failure = joined.failure;
    if (joined.group == nullptr) choice = ChooseGroupWay(question);
  }
  if (tell) tell(Explain(question, choice));
  return std::move(joined.group);
}

void StepExchange::FindBuckets(Part part, std::vector<Mirrored>& mirrored) {
  std::map<int64_t, size_t> of_windows;  // by where they begin: among what is mirrored
  Collectives& collectives = CollectivesOf(part);
  for (int i = 0; i < static_cast<int>(program_.slices.size()); ++i) {
    std::shared_ptr<Bucket>& bucket = collectives.buckets.emplace_back();
    if (GroupOf(i) != nullptr) continue;
    if (i > 0 && IsPart(i) && program_.slices[i - 1].first_segment == program_.slices[i].first_segment) {
      bucket = collectives.buckets[i - 1];
      bucket->last_slice = i;
      continue;
    }
    const GradientSlice& of = program_.slices[i];
    bucket = std::make_shared<Bucket>(Bucket{nullptr, i, i});
    if (of.in_host_memory) {
      bucket->mirror = std::make_shared<PinnedMirror>(
          PinnedMirror::OfHost(shard_.arena().HomeOf(part, of.first_segment, of.end_segment)));
      continue;
    }
    const Stream stream = StreamOf(part, i);
    const Slice memory =
        stream == Stream::kCollective ? MirroredOf(part, i, bucket->first_element) : MemoryOf(part, i);
    size_t at = mirrored.size();
    if (stream != Stream::kCollective) at = of_windows.emplace(memory.offset_bytes, at).first->second;
    if (at == mirrored.size()) mirrored.push_back({memory, stream, {}});
    mirrored[at].buckets.push_back(bucket.get());
  }
}

absl::Status StepExchange::OpenMirrors(const std::vector<Mirrored>& mirrored, bool host_reaches) {
  if (!host_reaches && !mirrored.empty()) {
    Bytes need;
    for (const Mirrored& of : mirrored) {
      need += of.memory.elements * SizeOf(Dtype::kF32);
      std::unique_ptr<CopyLane>& lane = lanes_[static_cast<int>(of.stream)];
      if (lane == nullptr) {
        ASSIGN_OR_RETURN(lane, shard_.queue().OpenCopyLane());
      }
    }
    RETURN_IF_ERROR(CheckPinnedRoom(*lanes_[static_cast<int>(mirrored.front().stream)], need,
                                    "copies in host memory of what is summed and gathered there"));
  }
  for (const Mirrored& of : mirrored) {
    ASSIGN_OR_RETURN(
        PinnedMirror created,
        PinnedMirror::Create(shard_.queue(), lanes_[static_cast<int>(of.stream)].get(), of.memory));
    const auto mirror = std::make_shared<PinnedMirror>(std::move(created));
    for (Bucket* const bucket : of.buckets) bucket->mirror = mirror;
  }
  return absl::OkStatus();
}

DeviceGroup* StepExchange::GroupOf(int slice) const {
  return SumsOnHosts(slice) ? nullptr : groups_.at(members_[slice]).get();
}

Slice StepExchange::MemoryOf(Part part, int slice) const {
  const GradientSlice& of = program_.slices[slice];
  return shard_.arena().Segments(part, of.first_segment, of.end_segment);
}

Slice StepExchange::MirroredOf(Part part, int first_slice, int64_t& first_element) const {
  const Slice memory = MemoryOf(part, first_slice);
  first_element = 0;
  if (!IsPart(first_slice)) return memory;
  int64_t first = memory.elements, end = 0;
  const SegmentId segment = program_.slices[first_slice].first_segment;
  for (size_t s = first_slice; s < program_.slices.size() && program_.slices[s].first_segment == segment;
       ++s) {
    for (const ArenaRuns& runs : program_.slices[s].runs) {
      first = std::min(first, runs.first);
      end = std::max(end, runs.first + (runs.repeats - 1) * runs.stride + runs.count);
    }
  }
  first_element = first;
  return memory.Sub(first, end - first);
}

GroupExchangeOf StepExchange::ExchangeOf(Part part, int slice) const {
  using Kind = GroupExchangeOf::Kind;
  GroupExchangeOf exchange{.values = MemoryOf(part, slice)};
  const GradientSlice& of = program_.slices[slice];
  if (of.shares.empty()) return exchange;
  exchange.kind = part == Part::kGradient ? Kind::kScatter : Kind::kGather;
  const auto members = static_cast<int>(of.holders.size());
  const std::vector<ElementRange> owned = OwnedSlices(of.elements, members, of.shares);
  for (const int member : MembersBySlice(members)) exchange.ends.push_back(owned[member].end);
  return exchange;
}

uint16_t StepExchange::ChannelOf(int slice) const {
  return ChannelOfSlice(program_.slices[slice].first_segment);
}

absl::StatusOr<MessageArrival> StepExchange::Transfer(const Instruction& instruction,
                                                      std::optional<Fence> after,
                                                      const std::function<void()>& when_ready,
                                                      absl::Time deadline) {
  const BufferId& buffer = instruction.operands.front().buffer;
  const Slice slice = shard_.BoundaryOf(buffer);
  const bool is_gradient =
      buffer.kind == BufferKind::kInputGradient || buffer.kind == BufferKind::kOutputGradient;
  // In order under one tag, so that a sequence may come again after a thousand micro-batches.
  const DeviceMessage message{
      .peer = instruction.peer,
      .tag = {.kind = is_gradient ? MessageTag::Kind::kGradient : MessageTag::Kind::kActivation,
              .channel = ChannelOfBoundary(instruction.boundary),
              .sequence = static_cast<uint32_t>(instruction.micro_batch) % kMaximumSequences},
      .span = {slice.buffer, slice.offset_bytes + instruction.offset.value, instruction.bytes.value},
      .after = after,
      .when_ready = when_ready};
  DeviceStream& stream = *streams_[static_cast<int>(instruction.stream)];
  if (IsReceive(instruction.kind)) return stream.ReceiveBehind(message, deadline);
  RETURN_IF_ERROR(stream.Send(message, deadline));
  return MessageArrival{};
}

absl::StatusOr<MessageArrival> StepExchange::Collect(const Instruction& instruction, Part part,
                                                     std::optional<Fence> after,
                                                     const std::function<void()>& when_ready,
                                                     absl::Time deadline) {
  const int slice = instruction.slice;
  if (IsOfWindow(instruction)) return RunOnHosts(instruction, part, after, when_ready, deadline);
  MessageArrival& all_there = CollectivesOf(part).all_there;
  if (DeviceGroup* const group = GroupOf(slice); group != nullptr) {
    RETURN_IF_ERROR(RunInGroup(*group, shard_.queue(), transport_, members_[slice], ChannelOf(slice),
                               ExchangeOf(part, slice), *after, when_ready, deadline));
    return all_there;
  }
  ASSIGN_OR_RETURN(const MessageArrival arrival, RunOnHosts(instruction, part, after, when_ready, deadline));
  if (arrival.lane != nullptr) all_there = arrival;
  return all_there;
}

absl::StatusOr<MessageArrival> StepExchange::RunOnHosts(const Instruction& instruction, Part part,
                                                        std::optional<Fence> after,
                                                        const std::function<void()>& when_ready,
                                                        absl::Time deadline) {
  const int slice = instruction.slice;
  const GradientSlice& of = program_.slices[slice];
  Collectives& collectives = CollectivesOf(part);
  Bucket& bucket = *collectives.buckets[slice];
  PinnedMirror& mirror = *bucket.mirror;
  std::vector<ParameterArena::Kept> kept;  // of a layer that lives with its holders
  if (IsOfWindow(instruction)) kept = shard_.arena().KeptOf(part, instruction.blocks.first);
  const bool gathers_window = IsOfWindow(instruction) && part == Part::kParameter;
  const auto place = [](const ParameterArena::Kept& run) {
    return Bytes{SizeOf(Dtype::kF32).value * run.element};
  };
  if (slice == bucket.first_slice) {
    if (after.has_value())
      RETURN_IF_ERROR(gathers_window ? mirror.AwaitDevice(*after) : mirror.FromDevice(*after));
    for (const ParameterArena::Kept& run : gathers_window ? kept : std::vector<ParameterArena::Kept>())
      RETURN_IF_ERROR(mirror.Take(run.values, place(run)));
  }
  if (when_ready) when_ready();
  if (IsPart(slice)) {
    RETURN_IF_ERROR(RunPart(instruction, collectives, part == Part::kParameter || of.counts, deadline));
  } else {
    const absl::Span<float> values(reinterpret_cast<float*>(mirror.bytes().data()), of.elements);
    RETURN_IF_ERROR(RunCollective(transport_, collectives.schedules[slice], members_[slice], ChannelOf(slice),
                                  values, collectives.wire, deadline));
  }
  if (slice < bucket.last_slice) return MessageArrival{};
  std::optional<Fence> there;
  if (IsOfWindow(instruction) && part == Part::kGradient) {
    for (const ParameterArena::Kept& run : kept) {
      ASSIGN_OR_RETURN(there, mirror.Put(place(run), run.values));
    }
  } else {
    ASSIGN_OR_RETURN(there, mirror.ToDevice());
  }
  CopyLane* const lane = lanes_[static_cast<int>(instruction.stream)].get();
  return there.has_value() ? MessageArrival{lane, *there} : MessageArrival{};
}

absl::Status StepExchange::RunPart(const Instruction& instruction, Collectives& collectives, bool counts,
                                   absl::Time deadline) {
  const int slice = instruction.slice;
  const GradientSlice& part = program_.slices[slice];
  const Bucket& bucket = *collectives.buckets[slice];
  float* const all = reinterpret_cast<float*>(bucket.mirror->bytes().data()) - bucket.first_element;
  std::vector<float>& values = part_values_[static_cast<int>(instruction.stream)];
  values.assign(part.elements, 0.0f);
  // Calls visit(where it lies, where it goes, how many) for each piece that lies in one place.
  const auto for_each_piece = [&](const auto& visit) {
    float* packed = values.data();
    for (const ArenaRuns& runs : part.runs) {
      for (int64_t r = 0; r < runs.repeats; ++r) {
        visit(all + runs.first + r * runs.stride, packed, runs.count);
        packed += runs.count;
      }
    }
  };
  if (counts)
    for_each_piece([](const float* held, float* packed, int64_t count) { std::copy_n(held, count, packed); });
  RETURN_IF_ERROR(RunCollective(transport_, collectives.schedules[slice], members_[slice], ChannelOf(slice),
                                absl::MakeSpan(values), collectives.wire, deadline));
  for_each_piece([](float* held, const float* packed, int64_t count) { std::copy_n(packed, count, held); });
  return absl::OkStatus();
}

}  // namespace medley
