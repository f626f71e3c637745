#include "runtime/engine/checkpoint/checkpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "runtime/base/files/scarce_disk.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checked_json.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

const ModelConfig kModel = {
    .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 31, .context = 16};

// What one segment holds at a step: a function of both, so that every mix-up shows.
struct State {
  std::vector<float> parameters, m, v;
  friend bool operator==(const State&, const State&) = default;
};

State StateOf(int64_t step, SegmentId segment) {
  std::mt19937_64 random(static_cast<uint64_t>(step * 100 + segment));
  State state;
  for (std::vector<float>* values : {&state.parameters, &state.m, &state.v}) {
    values->resize(static_cast<size_t>(SegmentElements(kModel, segment)));
    for (float& value : *values) value = std::normal_distribution<float>()(random);
  }
  return state;
}

absl::StatusOr<FileRecord> WriteState(const std::string& root, int64_t step, SegmentId segment) {
  const State state = StateOf(step, segment);
  return WriteSegment(
      CheckpointDirectory(root, step), segment,
      CutSegment(kModel, segment, absl::Span<const float>(state.parameters), state.m, state.v));
}

CheckpointManifest ManifestOf(int64_t step) {
  return {.job = "tiny \"job\"",
          .step = step,
          .model = kModel,
          .data = {.steps = step,
                   .order = DataOrder::kShuffled,
                   .seed = ~uint64_t{0},
                   .sequence = 16,
                   .global_batch_sequences = 4}};
}

CheckpointManifest WriteCheckpoint(const std::string& root, int64_t step,
                                   std::optional<LossScale> loss_scale = std::nullopt) {
  CheckpointManifest manifest = ManifestOf(step);
  manifest.loss_scale = loss_scale;
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    const auto record = WriteState(root, step, segment);
    REQUIRE(record.ok());
    manifest.files.push_back(*record);
  }
  const absl::Status status = CommitManifest(root, manifest);
  INFO(status.ToString());
  REQUIRE(status.ok());
  manifest.directory = CheckpointDirectory(root, step);
  return manifest;
}

absl::StatusOr<State> ReadState(const CheckpointManifest& manifest, SegmentId segment) {
  const size_t elements = static_cast<size_t>(SegmentElements(kModel, segment));
  State state = {std::vector<float>(elements), std::vector<float>(elements), std::vector<float>(elements)};
  const absl::Status status = ReadSegment(manifest, segment,
                                          CutSegment(kModel, segment, absl::MakeSpan(state.parameters),
                                                     absl::MakeSpan(state.m), absl::MakeSpan(state.v)));
  if (!status.ok()) return status;
  return state;
}

CheckpointSearch Search(const std::string& root) {
  auto search = LatestCheckpoint(root);
  INFO(search.status().ToString());
  REQUIRE(search.ok());
  return *std::move(search);
}

void FlipBit(const std::string& path, uint64_t position, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  const char byte = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(static_cast<std::streamoff>(position));
  file.put(byte);
}

TEST_CASE("a committed checkpoint is found and read back to the bit") {
  const TemporaryDirectory root;
  const CheckpointManifest written = WriteCheckpoint(root.path(), 123);
  CHECK(std::filesystem::exists(root.File("step-00000123/segment-00003.safetensors")));
  const CheckpointSearch search = Search(root.path());
  REQUIRE(search.latest.has_value());
  CHECK(*search.latest == written);
  CHECK(search.skipped.empty());
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    const auto state = ReadState(*search.latest, segment);
    REQUIRE(state.ok());
    CHECK(*state == StateOf(123, segment));
  }
}

TEST_CASE("a manifest keeps the loss scale, where there is one, and refuses one that cannot be") {
  const TemporaryDirectory root;
  for (const std::optional<LossScale> scale :
       {std::optional<LossScale>(), std::optional(LossScale{1, 1999})}) {
    const CheckpointManifest written = WriteCheckpoint(root.path(), scale.has_value() ? 2 : 1, scale);
    CHECK(ReadManifest(written.directory)->loss_scale == scale);
  }
  const CheckpointManifest odd = WriteCheckpoint(root.path(), 3, LossScale{.factor = 3});
  const absl::Status refused = ReadManifest(odd.directory).status();
  CHECK(absl::IsDataLoss(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("must be a power of two"));
}

TEST_CASE("a manifest tells what its newest steps showed, and one of before that had none is read") {
  CheckpointManifest manifest = ManifestOf(7);
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment)
    manifest.files.push_back({.segment = segment, .name = SegmentFileName(segment)});
  manifest.steps = {{.step = 6,
                     .loss = 0.1,
                     .gradient_norm = 2,
                     .learning_rate = 1e-3,
                     .seconds = 0.25,
                     .ended_at_seconds = 1.7e9,
                     .loss_scale = 1024},
                    {.step = 7,
                     .loss = std::nan(""),
                     .gradient_norm = std::numeric_limits<double>::infinity(),
                     .skipped = true}};
  const absl::StatusOr<CheckpointManifest> read = ParseManifest(ManifestText(manifest));
  REQUIRE(read.ok());
  REQUIRE(read->steps.size() == 2);
  CHECK(read->steps[0] == manifest.steps[0]);
  CHECK(std::isnan(read->steps[1].loss));
  CHECK(std::isnan(read->steps[1].gradient_norm));
  CHECK(read->steps[1].skipped);

  nlohmann::json before = nlohmann::json::parse(ManifestText(manifest));
  for (const char* member : {"steps", "format", "version", "xxh3_64"}) before.erase(member);
  const std::string text = CheckedJsonText("medley checkpoint", kManifestVersion, before);
  REQUIRE(ParseManifest(text).ok());
  CHECK(ParseManifest(text)->steps.empty());

  std::swap(manifest.steps[0], manifest.steps[1]);
  const absl::Status refused = ParseManifest(ManifestText(manifest)).status();
  CHECK(absl::IsDataLoss(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("\"step\" is 6"));
}

TEST_CASE("a search for a step at most finds none beyond it and does not speak of those") {
  const TemporaryDirectory root;
  for (const int64_t step : {10, 20, 30}) (void)WriteCheckpoint(root.path(), step);
  FlipBit(root.File("step-00000030/segment-00003.safetensors"), 200, 1);
  const auto step_found = [&](int64_t highest_step) -> int64_t {
    const auto search = LatestCheckpoint(root.path(), Verification::kChecksums, highest_step);
    REQUIRE(search.ok());
    CHECK(search->skipped.size() == (highest_step >= 30 ? 1 : 0));
    return search->latest ? search->latest->step : 0;
  };
  CHECK(step_found(31) == 20);
  CHECK(step_found(29) == 20);
  CHECK(step_found(20) == 20);
  CHECK(step_found(19) == 10);
  CHECK(step_found(9) == 0);
}

TEST_CASE("directories that the caller does not want are passed over and not spoken of") {
  const TemporaryDirectory root;
  for (const int64_t step : {10, 20, 30}) (void)WriteCheckpoint(root.path(), step);
  const auto search =
      LatestCheckpoint(root.path(), Verification::kSizes, 1000, "", {CheckpointDirectory(root.path(), 30)});
  REQUIRE(search.ok());
  CHECK(search->latest->step == 20);
  CHECK(search->skipped.empty());
}

TEST_CASE("a file that is cut while it is read is DataLoss, and ends nobody") {
  const TemporaryDirectory root;
  const std::string contents(3 << 20, 'x');
  const std::string path = root.Write("file", contents);
  const CheckpointManifest manifest = {.directory = root.path()};
  const FileRecord record = {
      .name = "file",
      .digest = DigestOf({reinterpret_cast<const std::byte*>(contents.data()), contents.size()})};
  CHECK(VerifyFile(manifest, record, Verification::kChecksums).ok());
  const absl::Status status = ReadVerified(manifest, record, [&](int64_t, absl::Span<const std::byte>) {
    std::filesystem::resize_file(path, 100);
  });
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Contains(path));
}

TEST_CASE("parameters can be read without the optimizer's state") {
  const TemporaryDirectory root;
  const CheckpointManifest manifest = WriteCheckpoint(root.path(), 1);
  std::vector<float> parameters(static_cast<size_t>(SegmentElements(kModel, 2)));
  REQUIRE(ReadSegment(manifest, 2, CutSegment(kModel, 2, absl::MakeSpan(parameters), {}, {})).ok());
  CHECK(parameters == StateOf(1, 2).parameters);
}

TEST_CASE("a segment is streamed part by part of its tensors, all in the memory of one") {
  const TemporaryDirectory root;
  const CheckpointManifest manifest = WriteCheckpoint(root.path(), 1);
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    CAPTURE(segment.value());
    State state;
    std::vector<std::string> order, wanted_order;
    std::set<const float*> places;
    const absl::Status read = StreamSegment(
        manifest, segment,
        [&](const ParameterSpec& tensor, StoredPart part, absl::Span<const float> values) -> absl::Status {
          std::vector<float>& to = part == StoredPart::kFirstMoment    ? state.m
                                   : part == StoredPart::kSecondMoment ? state.v
                                                                       : state.parameters;
          to.insert(to.end(), values.begin(), values.end());
          order.push_back(tensor.name + std::to_string(static_cast<int>(part)));
          places.insert(values.data());
          return absl::OkStatus();
        });
    CHECK(read.ToString() == "OK");
    CHECK(state == StateOf(1, segment));
    for (const ParameterSpec& tensor : SegmentParameters(kModel, segment)) {
      for (const char* part : {"0", "1", "2"}) wanted_order.push_back(tensor.name + part);
    }
    CHECK(order == wanted_order);
    CHECK(places.size() == (wanted_order.empty() ? 0 : 1));
  }
}

TEST_CASE("who cannot take more of a segment is asked no more; damage has the first word") {
  const TemporaryDirectory root;
  const CheckpointManifest manifest = WriteCheckpoint(root.path(), 1);
  int asked = 0;
  const auto take = [&](const ParameterSpec&, StoredPart, absl::Span<const float>) -> absl::Status {
    return ++asked == 2 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  CHECK(StreamSegment(manifest, 2, take) == absl::ResourceExhaustedError("full"));
  CHECK(asked == 2);
  CHECK(absl::IsInvalidArgument(StreamSegment(manifest, 5, take)));
  const std::string damaged = root.File("step-00000001/segment-00002.safetensors");
  FlipBit(damaged, std::filesystem::file_size(damaged) - 1, 3);
  asked = 0;
  CHECK(absl::IsDataLoss(StreamSegment(manifest, 2, take)));
  std::filesystem::remove(damaged);
  CHECK(absl::IsNotFound(StreamSegment(manifest, 2, take)));
}

TEST_CASE("a tensor is read by its name and held to its shape") {
  const TemporaryDirectory root;
  const CheckpointManifest manifest = WriteCheckpoint(root.path(), 1);
  std::vector<float> values(31 * 8);
  const absl::Status shape =
      ReadSegment(manifest, 0, {{"wte.weight", {8, 31}, absl::MakeSpan(values), {}, {}}});
  CHECK(absl::IsInvalidArgument(shape));
  CHECK_THAT(std::string(shape.message()), Contains("[31, 8], should have [8, 31]"));
  CHECK(absl::IsNotFound(ReadSegment(manifest, 0, {{"none", {31, 8}, absl::MakeSpan(values), {}, {}}})));
  CHECK(absl::IsInvalidArgument(ReadSegment(manifest, 5, {})));
  CHECK(absl::IsInvalidArgument(ReadSegment(manifest, -1, {})));
}

TEST_CASE("processes write the segments of one step side by side, and one commits") {
  const TemporaryDirectory root;
  std::vector<pid_t> children;
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(WriteState(root.path(), 7, segment).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK_FALSE(Search(root.path()).latest.has_value());
  CheckpointManifest manifest = ManifestOf(7);
  const TemporaryDirectory elsewhere;  // the same contents have the same records
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    manifest.files.push_back(*WriteState(elsewhere.path(), 7, segment));
  }
  REQUIRE(CommitManifest(root.path(), manifest).ok());
  const CheckpointSearch search = Search(root.path());
  REQUIRE(search.latest.has_value());
  CHECK(*ReadState(*search.latest, 4) == StateOf(7, 4));
}

TEST_CASE("a crash between the segments and the manifest leaves the checkpoint before") {
  const TemporaryDirectory root;
  WriteCheckpoint(root.path(), 10);
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment)
    REQUIRE(WriteState(root.path(), 20, segment).ok());
  const CheckpointSearch search = Search(root.path());
  REQUIRE(search.latest.has_value());
  CHECK(search.latest->step == 10);
  REQUIRE(search.skipped.size() == 1);
  CHECK(search.skipped[0].directory == CheckpointDirectory(root.path(), 20));
  CHECK(absl::IsNotFound(search.skipped[0].reason));
  CHECK_THAT(std::string(search.skipped[0].reason.message()), Contains("manifest.json"));
}

TEST_CASE("a segment that is truncated, changed or missing is noticed and the checkpoint before is taken") {
  const TemporaryDirectory root;
  WriteCheckpoint(root.path(), 10);
  const CheckpointManifest damaged = WriteCheckpoint(root.path(), 20);
  const std::string path = damaged.directory + "/segment-00002.safetensors";
  const uint64_t bytes = std::filesystem::file_size(path);
  absl::StatusCode code = absl::StatusCode::kDataLoss;
  const std::string damage = GENERATE("truncated", "emptied", "longer", "flipped", "missing");
  CAPTURE(damage);
  if (damage == "truncated") std::filesystem::resize_file(path, bytes - 1);
  if (damage == "emptied") std::filesystem::resize_file(path, 0);
  if (damage == "longer") std::filesystem::resize_file(path, bytes + 1);
  if (damage == "flipped") {
    const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{20}));
    CAPTURE(seed);
    FlipBit(path, std::mt19937_64(seed)() % bytes, static_cast<int>(seed % 8));
  }
  if (damage == "missing") {
    std::filesystem::remove(path);
    code = absl::StatusCode::kNotFound;
  }
  const absl::Status status = ReadState(damaged, 2).status();
  CHECK(status.code() == code);
  CHECK_THAT(std::string(status.message()), Contains("segment-00002.safetensors"));
  CHECK(ReadState(damaged, 1).ok());
  const CheckpointSearch search = Search(root.path());
  REQUIRE(search.latest.has_value());
  CHECK(search.latest->step == 10);
  REQUIRE(search.skipped.size() == 1);
  CHECK(search.skipped[0].reason == status);
}

TEST_CASE("a manifest with a flipped bit is refused, or says the same") {
  const CheckpointManifest manifest = [] {
    CheckpointManifest m = ManifestOf(3);
    for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
      m.files.push_back({segment, SegmentFileName(segment), {100, 0xabcdef}});
    }
    return m;
  }();
  const std::string text = ManifestText(manifest);
  REQUIRE(*ParseManifest(text) == manifest);
  int refused = 0;
  for (size_t position = 0; position < text.size(); ++position) {
    std::string damaged = text;
    damaged[position] ^= static_cast<char>(1 << (position % 8));
    const auto parsed = ParseManifest(damaged);
    CAPTURE(position, damaged.substr(position, 20));
    if (parsed.ok()) {
      CHECK(*parsed == manifest);  // white space
    } else {
      ++refused;
      CHECK((absl::IsDataLoss(parsed.status()) || absl::IsFailedPrecondition(parsed.status())));
    }
  }
  CHECK(refused > static_cast<int>(text.size()) / 2);
  for (size_t length = 0; length + 2 < text.size(); ++length)
    CHECK_FALSE(ParseManifest(text.substr(0, length)).ok());
}

TEST_CASE("a manifest that does not fit its files or directory is refused") {
  const TemporaryDirectory root;
  const CheckpointManifest good = WriteCheckpoint(root.path(), 5);
  CheckpointManifest bad = good;
  bad.files.pop_back();
  CHECK(absl::IsInvalidArgument(CommitManifest(root.path(), bad)));
  bad = good;
  bad.files[1].name = "../../etc/passwd";
  CHECK(absl::IsInvalidArgument(CommitManifest(root.path(), bad)));
  bad = good;
  std::swap(bad.files[1], bad.files[2]);
  CHECK(absl::IsInvalidArgument(CommitManifest(root.path(), bad)));
  bad = good;
  bad.model.heads = 3;
  CHECK(absl::IsInvalidArgument(CommitManifest(root.path(), bad)));
  bad = good;
  bad.files[3].digest.bytes += 1;
  const absl::Status size = CommitManifest(root.path(), bad);
  CHECK(absl::IsFailedPrecondition(size));
  CHECK_THAT(std::string(size.message()), Contains("segment-00003.safetensors"));
  bad = good;
  bad.step = 6;
  CHECK(absl::IsFailedPrecondition(CommitManifest(root.path(), bad)));
  std::filesystem::rename(good.directory, CheckpointDirectory(root.path(), 8));
  CHECK(absl::IsDataLoss(ReadManifest(CheckpointDirectory(root.path(), 8)).status()));
}

TEST_CASE("writing a step again makes it incomplete until it is committed again") {
  const TemporaryDirectory root;
  const CheckpointManifest manifest = WriteCheckpoint(root.path(), 5);
  REQUIRE(WriteState(root.path(), 5, 0).ok());
  CHECK_FALSE(Search(root.path()).latest.has_value());
  REQUIRE(CommitManifest(root.path(), manifest).ok());
  CHECK(Search(root.path()).latest.has_value());
}

TEST_CASE("a commit removes what dead writers left half-written") {
  const TemporaryDirectory root;
  CheckpointManifest manifest = WriteCheckpoint(root.path(), 5);
  root.Write("step-00000005/segment-00001.safetensors.partial-1-2", "half");
  REQUIRE(CommitManifest(root.path(), manifest).ok());
  CHECK_FALSE(std::filesystem::exists(root.File("step-00000005/segment-00001.safetensors.partial-1-2")));
  CHECK(Search(root.path()).latest.has_value());
}

TEST_CASE("a segment that does not fit on the disk is ResourceExhausted and leaves the checkpoint before") {
  const TemporaryDirectory directory;
  const SmallDisk disk(directory.File("disk"));
  const std::string root =
      disk.mounted() ? directory.File("disk/checkpoints") : directory.File("checkpoints");
  WriteCheckpoint(root, 1);  // about 30 KiB
  std::vector<float> large(16 * 1024, 1.0f);
  const SegmentTensor tensor = {"h.0.mlp.c_fc.weight", {128, 128}, large, large, large};
  absl::Status status;
  {
    const FileSizeLimit limit(disk.mounted() ? RLIM_INFINITY : 10'000);
    status = WriteSegment(CheckpointDirectory(root, 2), 3, {tensor}).status();
  }
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Contains("step-00000002/segment-00003.safetensors"));
  CHECK(std::filesystem::is_empty(CheckpointDirectory(root, 2)));
  CHECK(Search(root).latest->step == 1);
}

TEST_CASE("the newest complete checkpoints are kept, older and stale ones removed") {
  const TemporaryDirectory root;
  for (const int64_t step : {10, 20, 40, 60}) WriteCheckpoint(root.path(), step);
  for (const int64_t step : {30, 50, 70}) REQUIRE(WriteState(root.path(), step, 0).ok());
  root.Write("notes.txt", "mine");
  std::filesystem::create_directory(root.File("step-7"));
  const auto at = [&root](int64_t step) { return CheckpointDirectory(root.path(), step); };
  const auto removed = RemoveOldCheckpoints(root.path(), 2, 60);
  REQUIRE(removed.ok());
  CHECK(*removed == std::vector<std::string>{at(10), at(20), at(30), at(50)});
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(root.path())) {
    left.push_back(entry.path().filename().string());
  }
  std::sort(left.begin(), left.end());
  CHECK(left ==
        std::vector<std::string>{"notes.txt", "step-00000040", "step-00000060", "step-00000070", "step-7"});
  CHECK(RemoveOldCheckpoints(root.path(), 2, 60)->empty());
  CHECK(absl::IsInvalidArgument(RemoveOldCheckpoints(root.path(), 0, 60).status()));
}

TEST_CASE("what was just committed is kept, whatever lies there of higher steps") {
  const TemporaryDirectory root;
  for (const int64_t step : {40, 50, 100, 110}) WriteCheckpoint(root.path(), step);
  const auto removed = RemoveOldCheckpoints(root.path(), 1, 50);
  REQUIRE(removed.ok());
  CHECK(*removed == std::vector<std::string>{CheckpointDirectory(root.path(), 40)});
  CHECK(Search(root.path()).latest->step == 110);
}

// Reads what all may read, while it lives.
class OfNobodySpecial {
 public:
  OfNobodySpecial() {
    if (was_root_) REQUIRE(seteuid(54321) == 0);
  }
  ~OfNobodySpecial() {
    if (was_root_) CHECK(seteuid(0) == 0);
  }

 private:
  const bool was_root_ = geteuid() == 0;
};

TEST_CASE("a checkpoint that cannot be looked at is neither passed over for an earlier one nor removed") {
  // Where not only root may enter.
  const char* const usual = std::getenv("TEST_TMPDIR");
  const std::string kept = usual != nullptr ? usual : "";
  unsetenv("TEST_TMPDIR");
  const TemporaryDirectory root;
  if (usual != nullptr) setenv("TEST_TMPDIR", kept.c_str(), 1);
  for (const int64_t step : {10, 20, 30}) WriteCheckpoint(root.path(), step);
  const std::string manifest = root.File("step-00000020/manifest.json");
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  SECTION(
      "as with a file server that is away: opening it fails for a reason that says nothing of what is "
      "there") {
    std::filesystem::remove(manifest);
    std::filesystem::create_symlink("manifest.json", manifest);
  }
  SECTION("it may not be read") {
    code = absl::StatusCode::kPermissionDenied;
    std::filesystem::permissions(manifest, std::filesystem::perms::none);
  }
  std::filesystem::permissions(root.path(), std::filesystem::perms::all);
  for (const int64_t step : {10, 20, 30})
    std::filesystem::permissions(CheckpointDirectory(root.path(), step), std::filesystem::perms::all);
  const OfNobodySpecial reader;
  REQUIRE(ReadManifest(CheckpointDirectory(root.path(), 20)).status().code() == code);
  CHECK(Search(root.path()).latest->step == 30);
  const absl::Status at_20 = LatestCheckpoint(root.path(), Verification::kSizes, 20).status();
  CHECK(at_20.code() == code);
  CHECK_THAT(std::string(at_20.message()), Contains(manifest));
  const auto removed = RemoveOldCheckpoints(root.path(), 1, 30);
  REQUIRE(removed.ok());
  CHECK(*removed == std::vector<std::string>{CheckpointDirectory(root.path(), 10)});
  CHECK(std::filesystem::exists(CheckpointDirectory(root.path(), 20)));
}

TEST_CASE("nothing is removed while no checkpoint is complete") {
  const TemporaryDirectory root;
  for (const int64_t step : {30, 50}) REQUIRE(WriteState(root.path(), step, 0).ok());
  CHECK(RemoveOldCheckpoints(root.path(), 1, 50)->empty());
  CHECK(RemoveOldCheckpoints(root.File("none"), 1, 50)->empty());
}

TEST_CASE("a root without checkpoints has no latest one") {
  const TemporaryDirectory root;
  CHECK_FALSE(Search(root.path()).latest.has_value());
  CHECK_FALSE(Search(root.File("none")).latest.has_value());
}

TEST_CASE("a step has one directory name, and only that names it") {
  CHECK(CheckpointDirectory("/r", 123) == "/r/step-00000123");
  for (const int64_t step : {int64_t{0}, int64_t{99999999}, int64_t{100000000}, int64_t{1} << 40}) {
    CHECK(StepOfDirectory(CheckpointDirectory("/r", step)) == step);
    CHECK(StepOfDirectory(CheckpointDirectory("r", step) + "/") == step);
  }
  for (const char* name : {"", "/", "step-", "step-1", "step-000000123", "step--0000001", "step-0000012x",
                           "xstep-00000001", "step-99999999999999999999"}) {
    CAPTURE(name);
    CHECK_FALSE(StepOfDirectory(name).has_value());
  }
}

}  // namespace
}  // namespace medley
