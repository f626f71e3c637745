#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

// What each member of a group does in a collective, as data. comm/collective runs it; collective_time.h
// predicts the very same one. Pure.
namespace medley {

enum class CollectiveAlgorithm : uint8_t { kRing, kHalvingDoubling, kTree, kHierarchical };
std::string NameOf(CollectiveAlgorithm algorithm);  // "ring", "halving-doubling", "tree", "hierarchical"

// Elements [begin, end) of the vector.
struct ElementRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool Meets(const ElementRange& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// One message, seen from one end. Members are places in the group, 0 .. n - 1.
struct CollectiveStep {
  enum class Kind : uint8_t {
    kSend,       // to be added by the receiver
    kSendFinal,  // to be received over what is there: afterwards both ends hold the same bits. Where the wire
                 // is narrower than float, the sender therefore rounds its own elements to what it sends.
    kReceive,    // over what is there; of a kSendFinal
    kReceiveAndAdd,  // own + received, in float; of a kSend
  };
  Kind kind = Kind::kSend;
  int peer = 0;
  ElementRange range;  // not empty
  int round = 0;       // the same at both ends; messages of a round travel at the same time
  bool Sends() const { return kind == Kind::kSend || kind == Kind::kSendFinal; }
  friend bool operator==(const CollectiveStep&, const CollectiveStep&) = default;
};

// By member, in the order in which it acts: a step follows those before it whose ranges it touches. The n-th
// message from a member to another in this order is the n-th that the other receives from it. Rounds do not
// fall.
struct CollectiveSchedule {
  int members = 0;
  int64_t elements = 0;
  std::vector<std::vector<CollectiveStep>> steps;
  // The member whose steps alone are there; the others' are empty. Generators then take as long as that member
  // has messages, and not as long as all have. Nothing: all are there, as predictions and checks need them.
  std::optional<int> only = {};
};

// How a group is ordered and nested. Each generator says what it uses.
struct GroupShape {
  // A permutation of 0 .. n - 1; neighbours in the ring, and in groups. Empty: as they are.
  std::vector<int> order;
  // Hierarchical: levels[0] cuts `order` into groups, of so many members each; levels[1] cuts those groups
  // into groups of groups, ... Each level's sizes sum to the number of what it cuts. Beyond the last level
  // all groups are summed together.
  std::vector<std::vector<int>> levels;
  // Weights of the members' slices of the vector, by member (how much of it each sums), each in [0,
  // kMaximumShare]; empty: even.
  std::vector<double> shares;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

inline constexpr double kMaximumShare = 1e9;

// Whether `shape` fits a group of `members`. InvalidArgument: names the field, its value and what is allowed.
absl::Status CheckGroupShape(const GroupShape& shape, int members);

// A vector cut for `members`, in their order, in proportion to `shares` (empty or all zero: even), rounded to whole
// elements. Some may be empty.
std::vector<ElementRange> SlicesOf(int64_t elements, int members, const std::vector<double>& shares);

// Members as leaves of a halving, in the order in which their slices of a vector then lie. A power of two of them halve it, neighbours first:
// they exchange most, on one host where a host has several, so what they have in the end lies half of it apart, at their numbers with the
// bits reversed. With each of the first ones goes the neighbour behind it, as far as there are more members.
struct HalvingLeaf {
  int member = 0;
  int extra = -1;  // the neighbour that goes with it; -1: none
};
std::vector<HalvingLeaf> LeavesOf(int members);
// The same one after another, each extra one behind its neighbour.
std::vector<int> MembersBySlice(int members);

// The slice that each member sums and keeps, by member: SlicesOf by `shares`, of each member, in the order of MembersBySlice, however it is summed.
std::vector<ElementRange> OwnedSlices(int64_t elements, int members, const std::vector<double>& shares);

// `order`, or 0 .. members - 1 if it is empty.
std::vector<int> OrderOf(const GroupShape& shape, int members);

}  // namespace medley
