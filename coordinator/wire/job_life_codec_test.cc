#include "coordinator/wire/job_life_codec.h"

#include <catch2/catch.hpp>

#include "absl/strings/ascii.h"

namespace medley {
namespace {

TEST_CASE("a life survives the way into a job and back, for every state of the wire") {
  const google::protobuf::EnumDescriptor* states = v1::JobState_descriptor();
  for (int i = 0; i < states->value_count(); ++i) {
    const auto wire = static_cast<v1::JobState>(states->value(i)->number());
    CAPTURE(states->value(i)->name());
    const absl::StatusOr<JobState> state = DecodeJobState(wire);
    if (wire == v1::JOB_STATE_UNSPECIFIED) {
      CHECK(absl::IsInvalidArgument(state.status()));
      continue;
    }
    REQUIRE(state.ok());
    CHECK(EncodeJobState(*state) == wire);
    CHECK("JOB_STATE_" + absl::AsciiStrToUpper(NameOf(*state)) == states->value(i)->name());

    const JobLife life{*state, 4, 9, "because"};
    v1::Job job;
    job.set_attempt(7);
    job.mutable_spec()->set_max_restarts(9);
    SetLife(life, job);
    const absl::StatusOr<JobLife> back = LifeOf(job);
    REQUIRE(back.ok());
    CHECK(*back == life);
    CHECK(job.attempt() == 7);
  }
}

TEST_CASE("a spec that does not say how often it may be restarted means three times, and zero means never") {
  v1::Job job;
  job.set_state(v1::JOB_STATE_QUEUED);
  CHECK(LifeOf(job)->max_restarts == 3);
  job.mutable_spec()->set_max_restarts(0);
  CHECK(LifeOf(job)->max_restarts == 0);
}

TEST_CASE("a state from a newer version is refused with its number") {
  v1::Job job;
  job.set_state(static_cast<v1::JobState>(77));
  const absl::StatusOr<JobLife> life = LifeOf(job);
  REQUIRE(absl::IsInvalidArgument(life.status()));
  CHECK_THAT(std::string(life.status().message()), Catch::Contains("77"));
}

}  // namespace
}  // namespace medley
