#include "agent/rpc/prepare_check.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::PrepareRequest Probe(const std::string& secret) {
  v1::PrepareRequest request;
  request.set_task_id("probe/1/0");
  request.set_attempt(1);
  request.set_device("cpu0");
  request.mutable_probe();
  request.set_attempt_secret(secret);
  return request;
}

v1::PrepareRequest Training(int units) {
  v1::PrepareRequest request = Probe("");
  v1::TrainTask& train = *request.mutable_train();
  request.clear_probe();
  train.set_job_id("tiny-1");
  v1::JobSpec& spec = *train.mutable_spec();
  spec.set_name("tiny");
  spec.mutable_model()->set_hugging_face("/models/tiny");
  spec.mutable_data()->set_train("/data/train.txt");
  spec.mutable_batch()->set_sequences(4);
  spec.mutable_batch()->set_sequence_length(8);
  spec.set_steps(3);
  train.mutable_plan()->set_micro_batch_sequences(1);
  train.mutable_plan()->add_routes()->add_units(0);
  train.mutable_plan()->mutable_routes(0)->set_micro_batches(1);
  for (int unit = 0; unit < units; ++unit) {
    train.mutable_plan()->add_units()->add_devices("a/cpu0");
    train.mutable_plan()->mutable_units(unit)->add_blocks()->set_end(1);
  }
  return request;
}

TEST_CASE("a task with peers needs a secret of 16 bytes, and its refusal does not repeat it") {
  CHECK(CheckPrepare(Probe(std::string(16, 'x'))).ok());
  CHECK(CheckPrepare(Probe(std::string(64, '\xff'))).ok());
  for (const size_t size : {0, 1, 15, 65}) {
    CAPTURE(size);
    const absl::Status status = CheckPrepare(Probe(std::string(size, 'q')));
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::StartsWith("attempt_secret: has ") &&
                                                  !Catch::Contains(size > 0 ? "qqqqq" : "no such text"));
  }
}

TEST_CASE("one unit alone has no peers; two do") {
  const absl::Status alone = CheckPrepare(Training(1));
  INFO(alone.ToString());
  CHECK(alone.ok());
  v1::PrepareRequest two = Training(2);
  CHECK(absl::IsInvalidArgument(CheckPrepare(two)));
  two.set_attempt_secret(std::string(32, 's'));
  CHECK(CheckPrepare(two).ok());
}

TEST_CASE("messages are protected by no less than the node's least") {
  v1::PrepareRequest request = Training(2);
  request.set_attempt_secret(std::string(32, 's'));
  const auto with = [&](v1::MessageProtection protection, MessageProtection least) {
    request.mutable_train()->mutable_spec()->mutable_communication()->set_message_protection(protection);
    return CheckPrepare(request, {}, least);
  };
  CHECK(with(v1::MESSAGE_PROTECTION_UNSPECIFIED, MessageProtection::kNone).ok());
  CHECK(with(v1::MESSAGE_PROTECTION_CHECKSUM, MessageProtection::kChecksum).ok());
  CHECK(with(v1::MESSAGE_PROTECTION_ENCRYPTION, MessageProtection::kChecksum).ok());
  CHECK(with(v1::MESSAGE_PROTECTION_CHECKSUM, MessageProtection::kEncryption) ==
        absl::InvalidArgumentError(
            "train.spec.communication.message_protection: checksum; this node accepts no less than "
            "encryption (message_protection in its agent's configuration)"));
  CHECK(absl::IsInvalidArgument(with(v1::MESSAGE_PROTECTION_UNSPECIFIED, MessageProtection::kChecksum)));
  // One unit alone sends nothing, and what a probe sends is worth nothing.
  CHECK(CheckPrepare(Training(1), {}, MessageProtection::kEncryption).ok());
  CHECK(CheckPrepare(Probe(std::string(32, 's')), {}, MessageProtection::kEncryption).ok());
}

TEST_CASE("exactly one task") {
  v1::PrepareRequest request = Probe(std::string(32, 's'));
  request.clear_probe();
  CHECK(CheckPrepare(request) ==
        absl::InvalidArgumentError("exactly one of train, profile and probe must be given"));
  request = Training(1);
  request.mutable_probe();
  CHECK(absl::IsInvalidArgument(CheckPrepare(request)));
}

}  // namespace
}  // namespace medley
