#include "runtime/engine/checkpoint/run_owner.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checked_json.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

const ModelConfig kModel = {
    .layers = 1, .hidden = 4, .heads = 1, .feed_forward = 8, .vocabulary = 5, .context = 4};

RunOwner Owner(const std::string& run, uint64_t launch = 1) {
  return {.run = run, .job = "bible-1", .launch = launch};
}

CheckpointManifest WriteSegments(const std::string& root, int64_t step, const RunOwner& own) {
  CheckpointManifest manifest = {.job = "bible",
                                 .run = own.run,
                                 .spec = "f00d",
                                 .launch = own.launch,
                                 .data_fingerprint = "train 5 bytes hash 00",
                                 .step = step,
                                 .model = kModel,
                                 .data = {.steps = step, .sequence = 4, .global_batch_sequences = 1}};
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    const std::vector<float> values(static_cast<size_t>(SegmentElements(kModel, segment)), 1.0f);
    manifest.files.push_back(
        *WriteSegment(CheckpointDirectory(root, step), segment,
                      CutSegment(kModel, segment, absl::Span<const float>(values), values, values)));
  }
  return manifest;
}

absl::Status WriteCheckpoint(const std::string& root, int64_t step, const RunOwner& own) {
  return CommitManifest(root, WriteSegments(root, step, own));
}

TEST_CASE("a run claims an empty folder, and each later launch of it does") {
  const TemporaryDirectory directory;
  const std::string root = directory.File("a/b");
  REQUIRE(ClaimFolder(root, Owner("r", 3)).ok());
  CHECK(**ReadRunOwner(root) == Owner("r", 3));
  REQUIRE(ClaimFolder(root, Owner("r", 3)).ok());
  REQUIRE(WriteCheckpoint(root, 10, Owner("r", 3)).ok());
  REQUIRE(ClaimFolder(root, Owner("r", 7)).ok());
  CHECK(**ReadRunOwner(root) == Owner("r", 7));
  const absl::Status late = ClaimFolder(root, Owner("r", 6));
  CHECK(absl::IsFailedPrecondition(late));
  CHECK_THAT(std::string(late.message()), Contains("superseded by launch 7"));
  CHECK(**ReadRunOwner(root) == Owner("r", 7));
  CHECK(ClaimFolder(directory.File("none"), RunOwner{}).ok());
  CHECK_FALSE(std::filesystem::exists(directory.File("none")));
}

TEST_CASE("a folder with another run's checkpoints is refused, and what can be done is said") {
  const TemporaryDirectory root;
  REQUIRE(ClaimFolder(root.path(), Owner("first")).ok());
  const absl::Status early = ClaimFolder(root.path(), Owner("second"));
  CHECK(absl::IsFailedPrecondition(early));
  CHECK_THAT(std::string(early.message()),
             Contains(root.path() + " is the folder of another run (job bible-1)"));
  REQUIRE(WriteCheckpoint(root.path(), 120, Owner("first")).ok());
  const absl::Status refused = ClaimFolder(root.path(), Owner("second"));
  CHECK(absl::IsFailedPrecondition(refused));
  const std::string checkpoint = CheckpointDirectory(root.path(), 120);
  CHECK(std::string(refused.message()) == "checkpoint.directory: " + root.path() +
                                              " holds checkpoints of another run (job bible-1, step 120); "
                                              "choose another directory, remove it, or continue it "
                                              "with checkpoint.resume_from: " +
                                              checkpoint);
  CHECK((**ReadRunOwner(root.path())).run == "first");
}

TEST_CASE("checkpoints without an owner file belong to the run that they name, and to nobody else") {
  const TemporaryDirectory root;
  const std::string maker = GENERATE("", "other", "mine");
  CAPTURE(maker);
  REQUIRE(WriteCheckpoint(root.path(), 5, maker.empty() ? RunOwner{} : Owner(maker)).ok());
  const absl::Status claimed = ClaimFolder(root.path(), Owner("mine"));
  CHECK(claimed.ok() == (maker == "mine"));
  CHECK(ReadRunOwner(root.path())->has_value() == (maker == "mine"));
  // Without the manifest nobody knows whose they are.
  std::filesystem::remove(CheckpointDirectory(root.path(), 5) + "/manifest.json");
  std::filesystem::remove(root.File("run.json"));
  const absl::Status parts = ClaimFolder(root.path(), Owner("mine"));
  CHECK(absl::IsFailedPrecondition(parts));
  CHECK_THAT(std::string(parts.message()), Contains("holds parts of checkpoints of an unknown run"));
}

TEST_CASE("the run that continues a folder's newest checkpoint takes the folder over") {
  const TemporaryDirectory root;
  REQUIRE(ClaimFolder(root.path(), Owner("first", 9)).ok());
  for (const int64_t step : {10, 20}) REQUIRE(WriteCheckpoint(root.path(), step, Owner("first", 9)).ok());
  CHECK_FALSE(ClaimFolder(root.path(), Owner("second"), CheckpointDirectory(root.path(), 10)).ok());
  const absl::Status taken =
      ClaimFolder(root.path(), Owner("second"), CheckpointDirectory(root.path(), 20) + "/");
  CHECK(taken.ToString() == "OK");
  CHECK((**ReadRunOwner(root.path())).run == "second");
  // Who is still at it is told, and its own checkpoints are found by it alone.
  CHECK(absl::IsAborted(CheckRunOwner(root.path(), Owner("first", 9))));
  const auto own = LatestCheckpoint(root.path(), Verification::kSizes, 1000, "second");
  REQUIRE(own.ok());
  CHECK_FALSE(own->latest.has_value());
  REQUIRE(own->skipped.size() == 2);
  CHECK(absl::IsFailedPrecondition(own->skipped[0].reason));
  CHECK(LatestCheckpoint(root.path(), Verification::kSizes, 1000, "first")->latest->step == 20);
}

TEST_CASE("a launch that is superseded commits and removes nothing") {
  const TemporaryDirectory root;
  const RunOwner old = Owner("r", 1), now = Owner("r", 2);
  REQUIRE(ClaimFolder(root.path(), old).ok());
  for (const int64_t step : {10, 20, 30}) REQUIRE(WriteCheckpoint(root.path(), step, old).ok());
  const CheckpointManifest late = WriteSegments(root.path(), 40, old);
  REQUIRE(ClaimFolder(root.path(), now).ok());
  const absl::Status commit = CommitManifest(root.path(), late);
  CHECK(absl::IsAborted(commit));
  CHECK_THAT(std::string(commit.message()), Contains("superseded by launch 2"));
  CHECK(absl::IsAborted(RemoveOldCheckpoints(root.path(), 1, 30, old).status()));
  CHECK(absl::IsAborted(RemoveIncomplete(root.path(), 40, old)));
  CHECK(absl::IsAborted(KeepRunOwner(root.path(), old)));
  CHECK(std::filesystem::exists(CheckpointDirectory(root.path(), 10)));
  CHECK(std::filesystem::exists(CheckpointDirectory(root.path(), 40)));
  CHECK(RemoveOldCheckpoints(root.path(), 1, 30, now)->size() == 2);
  // Neither does one of a run that lost its folder to another.
  REQUIRE(WriteRunOwner(root.path(), Owner("other")).ok());
  CHECK(absl::IsAborted(CheckRunOwner(root.path(), now)));
}

TEST_CASE(
    "an owner file that is gone, or was overwritten by an earlier launch, is put right by the later one") {
  const TemporaryDirectory root;
  REQUIRE(KeepRunOwner(root.path(), Owner("r", 5)).ok());
  CHECK(**ReadRunOwner(root.path()) == Owner("r", 5));
  REQUIRE(WriteRunOwner(root.path(), Owner("r", 4)).ok());
  CHECK(CheckRunOwner(root.path(), Owner("r", 5)).ok());
  REQUIRE(KeepRunOwner(root.path(), Owner("r", 5)).ok());
  CHECK(**ReadRunOwner(root.path()) == Owner("r", 5));
}

TEST_CASE("a damaged owner file is refused with its name") {
  const TemporaryDirectory root;
  REQUIRE(ClaimFolder(root.path(), Owner("r")).ok());
  std::string text;
  std::getline(std::ifstream(root.File("run.json")), text, '\0');
  text[text.find("bible-1")] = 'B';
  root.Write("run.json", text);
  CHECK(absl::IsDataLoss(ReadRunOwner(root.path()).status()));
  const absl::Status claim = ClaimFolder(root.path(), Owner("r"));
  CHECK(absl::IsFailedPrecondition(claim));
  CHECK_THAT(std::string(claim.message()), Contains("checkpoint.directory: ") && Contains("run.json"));
}

TEST_CASE(
    "checkpoints say whose they are; those of version 1 do not, and are the run's if the owner file says "
    "so") {
  const TemporaryDirectory root;
  REQUIRE(WriteCheckpoint(root.path(), 7, Owner("r", 4)).ok());
  CheckpointManifest manifest = *ReadManifest(CheckpointDirectory(root.path(), 7));
  CHECK(manifest.run == "r");
  CHECK(manifest.spec == "f00d");
  CHECK(manifest.launch == 4);
  CHECK(manifest.data_fingerprint == "train 5 bytes hash 00");
  nlohmann::json object = nlohmann::json::parse(ManifestText(manifest));
  for (const char* member : {"run", "spec", "launch", "data_fingerprint", "xxh3_64"}) object.erase(member);
  root.Write("step-00000007/manifest.json", CheckedJsonText("medley checkpoint", 1, object));
  const auto old = ReadManifest(CheckpointDirectory(root.path(), 7));
  INFO(old.status().ToString());
  REQUIRE(old.ok());
  manifest.run = manifest.spec = manifest.data_fingerprint = "";
  manifest.launch = 0;
  CHECK(*old == manifest);
  CHECK(LatestCheckpoint(root.path())->latest.has_value());
  CHECK_FALSE(LatestCheckpoint(root.path(), Verification::kSizes, 1000, "r")->latest.has_value());
  REQUIRE(WriteRunOwner(root.path(), Owner("r", 5)).ok());
  CHECK(LatestCheckpoint(root.path(), Verification::kSizes, 1000, "r")->latest.has_value());
  CHECK_FALSE(LatestCheckpoint(root.path(), Verification::kSizes, 1000, "s")->latest.has_value());
  root.Write("step-00000007/manifest.json", CheckedJsonText("medley checkpoint", 3, object));
  CHECK(absl::IsFailedPrecondition(ReadManifest(CheckpointDirectory(root.path(), 7)).status()));
}

TEST_CASE("a folder that cannot be written is noticed before anything is trained, and a try leaves nothing") {
  const TemporaryDirectory directory;
  REQUIRE(TryFolder(directory.File("a/b")).ok());
  CHECK(std::filesystem::is_empty(directory.File("a/b")));
  const std::string file = directory.Write("file", "");
  const absl::Status status = TryFolder(file + "/job");
  CHECK_FALSE(status.ok());
  CHECK_THAT(std::string(status.message()), Contains(file));
}

}  // namespace
}  // namespace medley
