#include "runtime/ir/model/model_share.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "runtime/ir/model/random_shares.h"

namespace medley {
namespace {

const ModelConfig kModels[] = {
    {.layers = 2, .hidden = 12, .heads = 6, .feed_forward = 40, .vocabulary = 29, .context = 10},
    {.layers = 2,
     .hidden = 12,
     .heads = 10,
     .feed_forward = 40,
     .vocabulary = 29,
     .context = 10,
     .family = ModelFamily::kLlama,
     .tied_head = false,
     .key_value_heads = 5,
     .head_size = 4},
};

// How many ranks make the keys and values of a head.
int HoldersOfKey(const ModelConfig& config, const std::vector<ModelShare>& shares, int key) {
  return static_cast<int>(std::count_if(shares.begin(), shares.end(), [&](const ModelShare& share) {
    const IndexRange held = KeyValueHeadsOf(config, share);
    return key >= held.first && key < held.end;
  }));
}

TEST_CASE(
    "shares of any size together hold every element of a cut tensor once, keys and values on each rank that "
    "attends to them, and all of the others",
    "[property]") {
  const ModelConfig& config = kModels[GENERATE(0, 1)];
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{40}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int degree = static_cast<int>(1 + random() % config.heads);
  const std::vector<ModelShare> shares =
      seed % 4 == 0 ? EvenShares(config, degree) : RandomShares(random, config, degree);
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    const std::vector<ParameterSpec> tensors = SegmentParameters(config, segment);
    for (size_t t = 0; t < tensors.size(); ++t) {
      CAPTURE(tensors[t].name, degree);
      std::vector<int> holders(tensors[t].elements, 0);
      for (const ModelShare& share : shares) {
        const ModelConfig local = LocalModel(config, share);
        int64_t next = 0;
        for (const HeldRun& run : HeldRuns(config, tensors[t], share)) {
          CHECK(run.held == next);
          next += run.count;
          for (int64_t i = 0; i < run.count; ++i) ++holders[run.whole + i];
        }
        // The rank's own model has the tensor in just that size.
        CHECK(SegmentParameters(local, segment)[t].name == tensors[t].name);
        CHECK(SegmentParameters(local, segment)[t].elements == next);
      }
      std::vector<int> expected(tensors[t].elements, tensors[t].cut == TensorCut::kNone ? degree : 1);
      if (tensors[t].cut == TensorCut::kKeyValueHeads) {
        const int64_t of_head = tensors[t].elements / config.key_value_head_count();
        for (int64_t i = 0; i < tensors[t].elements; ++i)
          expected[i] = HoldersOfKey(config, shares, static_cast<int>(i / of_head));
      }
      CHECK(holders == expected);
    }
  }
  for (const ModelShare& share : shares) {
    const ModelConfig local = LocalModel(config, share);
    for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
      int64_t elements = 0;
      for (const ParameterSpec& tensor : SegmentParameters(local, segment)) elements += tensor.elements;
      CHECK(SegmentElements(local, segment) == elements);
    }
    CHECK(local.size_of_head() == config.size_of_head());
    CHECK(local.heads % local.key_value_head_count() == 0);
  }
}

TEST_CASE("a head's queries lie beside its keys and values, as the whole tensor has them") {
  const ModelConfig config = kModels[0];  // six heads of two
  const ParameterSpec joined = SegmentParameters(config, SegmentOfBlock(1))[3];
  REQUIRE(joined.name == "h.0.attn.c_attn.bias");
  const std::vector<HeldRun> runs = HeldRuns(config, joined, EvenShares(config, 3)[1]);  // heads 2 and 3
  REQUIRE(runs.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(runs[i].whole == 12 * i + 4);
    CHECK(runs[i].held == 4 * i);
    CHECK(runs[i].count == 4);
  }
}

TEST_CASE("one rank has the model as it is, and more ranks than heads are refused with the number") {
  for (const ModelConfig& config : kModels) {
    CHECK(EvenShares(config, 1) == std::vector<ModelShare>{WholeModel(config)});
    CHECK(LocalModel(config, WholeModel(config)) == config);
    CHECK(SharingObjection(config, config.heads).empty());
    const std::string heads = std::to_string(config.heads), more = std::to_string(config.heads + 1);
    CHECK(SharingObjection(config, config.heads + 1) ==
          more + "; the model has " + heads + " heads, so at most " + heads);
  }
}

TEST_CASE(
    "more ranks than key-value heads share these evenly, and each shares one with its neighbours alone") {
  const ModelConfig& config = kModels[1];  // ten heads, two to each of five keys
  CHECK_FALSE(ShareKeys(config, EvenShares(config, 5)));
  const std::vector<ModelShare> shares = EvenShares(config, 7);
  CHECK(ShareKeys(config, shares));
  const std::vector<IndexRange> heads = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 6}, {6, 8}, {8, 10}};
  const std::vector<IndexRange> keys = {{0, 1}, {0, 1}, {1, 2}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
  for (int member = 0; member < 7; ++member) {
    CAPTURE(member);
    CHECK(QueryHeadsOf(config, shares[member]) == heads[member]);
    CHECK(KeyValueHeadsOf(config, shares[member]) == keys[member]);
    CHECK(HasKeysOfAnother(config, shares, member) == (member == 1 || member == 3));
    CHECK(LocalModel(config, shares[member]) == LocalModel(config, AtOrigin(shares[member])));
  }
  CHECK(AttendAlike(config, {2, 6}));
  CHECK_FALSE(AttendAlike(config, {1, 4}));
}

}  // namespace
}  // namespace medley
