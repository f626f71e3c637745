#include "runtime/ir/collective/group_way.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

namespace medley {
namespace {

GroupFacts Gpu(const std::string& identity) {
  return {.device = "cuda: NVIDIA H100 (sm_90)",
          .library = "NCCL 2.28.3",
          .identity = identity,
          .host_reaches = false};
}
GroupFacts WithoutLibrary() {
  GroupFacts facts = Gpu("");
  facts.library = "";
  facts.objection = "NCCL: libnccl.so.2: not found";
  return facts;
}
GroupFacts Cpu() {
  return {.device = "cpu-avx512 (1 core)", .objection = "no library sums memory of such devices"};
}

GroupWayQuestion Question(std::vector<GroupFacts> facts) {
  GroupWayQuestion question;
  for (int rank = 0; rank < static_cast<int>(facts.size()); ++rank) question.members.push_back(rank);
  question.facts = std::move(facts);
  return question;
}

std::string ObjectionTo(GroupWay way, const GroupWayQuestion& question) {
  for (const GroupWayCandidate& candidate : ChooseGroupWay(question).candidates) {
    if (candidate.way == way) return candidate.objection;
  }
  return "not asked";
}

TEST_CASE("devices of one library sum among themselves") {
  const GroupWayQuestion question = Question({Gpu("a"), Gpu("b"), Gpu("c")});
  const GroupWayChoice choice = ChooseGroupWay(question);
  CHECK(choice.way == GroupWay::kLibrary);
  CHECK(Explain(question, choice) ==
        "gradients of ranks 0, 1, 2 are summed by way of NCCL 2.28.3: all are devices of its, and nothing "
        "passes through the host's memory\n"
        "  direct: the network does not reach the memory of rank 0 (cuda: NVIDIA H100 (sm_90))\n"
        "  staged through the host: could be");
}

TEST_CASE("what a unit exchanges within passes goes by the library, whatever the job asks of gradients") {
  GroupWayQuestion question = Question({Gpu("a"), Gpu("b")});
  question.use = GroupUse::kPasses;
  const GroupWayChoice choice = ChooseGroupWay(question);
  CHECK(choice.way == GroupWay::kLibrary);
  CHECK(Explain(question, choice) ==
        "what ranks 0, 1 exchange within passes goes by way of NCCL 2.28.3: all are devices of its, and "
        "nothing passes "
        "through the host's memory\n"
        "  direct: the network does not reach the memory of rank 0 (cuda: NVIDIA H100 (sm_90))\n"
        "  staged through the host: could be");
  question.device_memory = DeviceMemoryStrategy::kStaged;
  CHECK(ObjectionTo(GroupWay::kLibrary, question) == "the job asks for communication.device_memory staged");
}

TEST_CASE("memory of hosts needs no choice") {
  const GroupWayQuestion question = Question({Cpu(), Cpu()});
  const GroupWayChoice choice = ChooseGroupWay(question);
  CHECK(choice.way == GroupWay::kHost);
  CHECK(Explain(question, choice) ==
        "gradients of ranks 0, 1 are summed by way of the host: the memory is the hosts'");
}

TEST_CASE("what stands against the library sends sums through the host, and is said") {
  GroupWayQuestion question = Question({Gpu("a"), Gpu("b"), Gpu("c")});
  std::string objection;
  SECTION("a device of another kind") {
    question.facts[2] = Cpu();
    objection = "rank 2 computes on cpu-avx512 (1 core): no library sums memory of such devices";
  }
  SECTION("a library that is missing") {
    question.facts[1] = WithoutLibrary();
    objection = "rank 1 computes on cuda: NVIDIA H100 (sm_90): NCCL: libnccl.so.2: not found";
  }
  SECTION("another release") {
    question.facts[1].library = "NCCL 2.18.1";
    objection = "rank 0 has NCCL 2.28.3, rank 1 has NCCL 2.18.1";
  }
  SECTION("a device twice") {
    question.facts[2].identity = "b";
    objection = "ranks 1 and 2 share one device";
  }
  SECTION("a group that a device has at work already") {
    question.exchanging_in_passes = {2, 3};
    objection = "rank 2 exchanges by it within passes, and a device has one group at work at a time";
  }
  SECTION("members that could not come together") {
    question.failure = "rank 1 cannot join: unhandled system error";
    objection = question.failure;
  }
  SECTION("what the job forces") {
    SECTION("staging") {
      question.device_memory = DeviceMemoryStrategy::kStaged;
      objection = "the job asks for communication.device_memory staged";
    }
    SECTION("one copy") {
      question.device_memory = DeviceMemoryStrategy::kWhole;
      objection = "the job asks for communication.device_memory whole";
    }
    SECTION("narrow messages") {
      question.wire = WireType::kBf16;
      objection = "the job asks for communication.gradient_wire bf16, and devices sum what they have, f32";
    }
    SECTION("an algorithm") {
      question.algorithm = CollectiveAlgorithm::kTree;
      objection = "the job asks for communication.all_reduce tree";
    }
  }
  CHECK(ChooseGroupWay(question).way == GroupWay::kHost);
  CHECK(ObjectionTo(GroupWay::kLibrary, question) == objection);
  const std::string text = Explain(question, ChooseGroupWay(question));
  CHECK_THAT(text,
             Catch::StartsWith("gradients of ranks 0, 1, 2 are summed by way of staged through the host"));
  CHECK_THAT(text, Catch::Contains("\n  NCCL 2.28.3: " + objection + "\n  direct: "));
}

TEST_CASE("only members count") {
  GroupWayQuestion question = Question({Cpu(), Gpu("a"), Gpu("b"), Gpu("a")});
  question.members = {1, 2};
  CHECK(ChooseGroupWay(question).way == GroupWay::kLibrary);
  question.members = {1, 3};
  CHECK(ObjectionTo(GroupWay::kLibrary, question) == "ranks 1 and 3 share one device");
}

TEST_CASE("a job that wants the network to reach devices' memory has nothing against their library") {
  GroupWayQuestion question = Question({Gpu("a"), Gpu("b")});
  question.device_memory = DeviceMemoryStrategy::kDirect;
  CHECK(ChooseGroupWay(question).way == GroupWay::kLibrary);
}

TEST_CASE("the way through the network says what it lacks") {
  GroupWayQuestion question = Question({WithoutLibrary(), Gpu("b")});
  CHECK(ObjectionTo(GroupWay::kDirect, question) ==
        "the network does not reach the memory of rank 0 (cuda: NVIDIA H100 (sm_90))");
  for (GroupFacts& facts : question.facts) facts.network_reaches = true;
  CHECK(ObjectionTo(GroupWay::kDirect, question) ==
        "sums on a device of what the network brings into its memory are not built");
}

TEST_CASE("a library is not asked where its messages would leave a node without the protection of others") {
  GroupWayQuestion question;
  question.members = {0, 1};
  for (const std::string identity : {"gpu a", "gpu b"}) {
    question.facts.push_back(
        {.device = identity, .library = "NCCL 2.28.3", .identity = identity, .host_reaches = false});
    question.facts.back().node = "one";
  }
  question.message_protection = MessageProtection::kEncryption;
  CHECK(ChooseGroupWay(question).way == GroupWay::kLibrary);
  question.facts[1].node = "two";
  const GroupWayChoice choice = ChooseGroupWay(question);
  CHECK(choice.way == GroupWay::kHost);
  CHECK_THAT(choice.candidates[0].objection, Catch::Contains("ranks 0 and 1 are on different nodes") &&
                                                 Catch::Contains("message_protection is encryption"));
  question.message_protection = MessageProtection::kNone;
  CHECK(ChooseGroupWay(question).way == GroupWay::kLibrary);
}

TEST_CASE("facts travel as they are, with texts cut to their room") {
  GroupFacts facts = Gpu("0123");
  facts.network_reaches = true;
  facts.objection = std::string(1000, 'x');
  const std::string bytes = EncodeGroupFacts(facts);
  CHECK(bytes.size() == kGroupFactsBytes);
  facts.objection.resize(255);
  CHECK(*DecodeGroupFacts(bytes) == facts);
  CHECK(*DecodeGroupFacts(EncodeGroupFacts(Cpu())) == Cpu());
  std::string of_before = bytes;  // which had nothing there
  of_before.back() = 0;
  CHECK(DecodeGroupFacts(of_before)->slice_order == 0);
  CHECK(DecodeGroupFacts(of_before)->device == facts.device);

  CHECK(absl::IsInvalidArgument(DecodeGroupFacts(bytes.substr(1)).status()));
  for (const auto& [at, value] : {std::pair(0, '\2'), std::pair(1, '\4'), std::pair(2, '\xff')}) {
    std::string wrong = bytes;
    wrong[static_cast<size_t>(at)] = value;
    if (at == 2) std::fill(wrong.begin() + 2, wrong.end(), '\xff');
    CAPTURE(at);
    CHECK(absl::IsInvalidArgument(DecodeGroupFacts(wrong).status()));
  }
}

}  // namespace
}  // namespace medley
