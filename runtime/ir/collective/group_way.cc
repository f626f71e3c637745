#include "runtime/ir/collective/group_way.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {
namespace {

// What the job or its plan asks for that is done on the host alone; empty: nothing.
std::string AskedOfTheHost(const GroupWayQuestion& question) {
  switch (question.device_memory) {
    case DeviceMemoryStrategy::kStaged:
      return "the job asks for communication.device_memory staged";
    case DeviceMemoryStrategy::kWhole:
      return "the job asks for communication.device_memory whole";
    case DeviceMemoryStrategy::kAutomatic:
    case DeviceMemoryStrategy::kDirect:  // a library does not go through the host either
      break;
  }
  if (question.wire == WireType::kBf16)
    return "the job asks for communication.gradient_wire bf16, and devices sum what they have, f32";
  if (question.algorithm.has_value())
    return absl::StrCat("the job asks for communication.all_reduce ", NameOf(*question.algorithm));
  return "";
}

// The first library among the members', or a word for it.
std::string LibraryOf(const GroupWayQuestion& question) {
  for (const int rank : question.members) {
    if (const std::string& library = question.facts[rank].library; !library.empty()) return library;
  }
  return "a library of the devices";
}

std::string ObjectionToLibrary(const GroupWayQuestion& question) {
  if (std::string asked = AskedOfTheHost(question); !asked.empty()) return asked;
  const std::vector<int>& busy = question.exchanging_in_passes;
  for (const int rank : question.members) {
    if (std::find(busy.begin(), busy.end(), rank) != busy.end()) {
      return absl::StrCat("rank ", rank,
                          " exchanges by it within passes, and a device has one group at work at a time");
    }
  }
  const std::vector<GroupFacts>& facts = question.facts;
  for (const int rank : question.members) {
    if (!facts[rank].library.empty()) continue;
    return absl::StrCat("rank ", rank, " computes on ", facts[rank].device, ": ", facts[rank].objection);
  }
  const int first = question.members.front();
  std::map<std::string, int> rank_by_identity;
  for (const int rank : question.members) {
    if (question.message_protection != MessageProtection::kNone && facts[rank].node != facts[first].node) {
      return absl::StrCat(
          "ranks ", first, " and ", rank, " are on different nodes, and message_protection is ",
          NameOf(question.message_protection), ": the library's own messages would go without");
    }
    if (facts[rank].library != facts[first].library) {
      return absl::StrCat("rank ", first, " has ", facts[first].library, ", rank ", rank, " has ",
                          facts[rank].library);
    }
    const auto [other, is_new] = rank_by_identity.emplace(facts[rank].identity, rank);
    if (!is_new) return absl::StrCat("ranks ", other->second, " and ", rank, " share one device");
  }
  return question.failure;
}

std::string ObjectionToDirect(const GroupWayQuestion& question) {
  if (std::string asked = AskedOfTheHost(question); !asked.empty()) return asked;
  for (const int rank : question.members) {
    const GroupFacts& facts = question.facts[rank];
    if (!facts.host_reaches && !facts.network_reaches) {
      return absl::StrCat("the network does not reach the memory of rank ", rank, " (", facts.device, ")");
    }
  }
  return "sums on a device of what the network brings into its memory are not built";
}

std::string ReasonFor(GroupWay way, bool is_host_memory) {
  switch (way) {
    case GroupWay::kLibrary:
      return "all are devices of its, and nothing passes through the host's memory";
    case GroupWay::kDirect:
      return "the network reaches all memory";
    case GroupWay::kHost:
      return is_host_memory ? "the memory is the hosts'" : "there is no better way";
  }
  return "";
}

}  // namespace

GroupWayChoice ChooseGroupWay(const GroupWayQuestion& question) {
  const bool is_host_memory = std::all_of(question.members.begin(), question.members.end(),
                                          [&](int rank) { return question.facts[rank].host_reaches; });
  GroupWayChoice choice;
  if (!is_host_memory) {
    choice.candidates = {{GroupWay::kLibrary, LibraryOf(question), ObjectionToLibrary(question)},
                         {GroupWay::kDirect, "direct", ObjectionToDirect(question)}};
  }
  choice.candidates.push_back({GroupWay::kHost, is_host_memory ? "the host" : "staged through the host", ""});
  for (const GroupWayCandidate& candidate : choice.candidates) {
    if (!candidate.objection.empty()) continue;
    choice.way = candidate.way;
    break;
  }
  choice.reason = ReasonFor(choice.way, is_host_memory);
  return choice;
}

std::string Explain(const GroupWayQuestion& question, const GroupWayChoice& choice) {
  std::string text, others;
  for (const GroupWayCandidate& candidate : choice.candidates) {
    if (candidate.way == choice.way) {
      const std::string ranks = absl::StrJoin(question.members, ", ");
      text = question.use == GroupUse::kPasses
                 ? absl::StrCat("what ranks ", ranks, " exchange within passes goes by way of ")
                 : absl::StrCat("gradients of ranks ", ranks, " are summed by way of ");
      absl::StrAppend(&text, candidate.name, ": ", choice.reason);
    } else {
      absl::StrAppend(&others, "\n  ", candidate.name, ": ",
                      candidate.objection.empty() ? "could be" : candidate.objection);
    }
  }
  return text + others;
}

}  // namespace medley
