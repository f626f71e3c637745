#include "coordinator/wire/device_kind_codec.h"

#include <catch2/catch.hpp>
#include <string>

#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

const char kKind[] = R"(kind: A100-80
matmul_flops_per_second: 3.12e14
memory_bytes_per_second: 2.039e12
node_link_bytes_per_second: 3e11
memory_bytes: 80GiB
source: {title: NVIDIA A100 data sheet, licence: figures of a data sheet, date: 2021-06}
calibrations:
  - software: megatron-lm 2021
    fitted_on: {title: Narayanan et al. 2021, licence: figures of a publication, date: 2021-04}
    rows: 16
    error_mean: 0.04
    coefficients: {matmul_share: 0.77, exchange_share: 0.82}
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

absl::StatusOr<DeviceKindProfile> Read(const std::string& text) {
  v1::DeviceKind kind;
  const absl::Status status = ReadYaml(text, "kind.yaml", &kind);
  if (!status.ok()) return status;
  return DecodeDeviceKind(kind);
}

TEST_CASE("a device kind is its figures and what was learnt with each software") {
  const absl::StatusOr<DeviceKindProfile> profile =
      Read(std::string(kKind) + "matmul_f32_flops_per_second: 1.95e13\ncomputes_bf16: true\n");
  REQUIRE(profile.ok());
  CHECK(profile->figures.kind == "A100-80");
  CHECK(profile->figures.matmul_flops_per_second == 3.12e14);
  CHECK(profile->figures.memory == GiB(80));
  CHECK(profile->figures.matmul_f32_flops_per_second == 1.95e13);
  CHECK(profile->figures.computes == ComputedPrecisions{.bf16 = true});
  const DeviceKindProfile::Learnt& learnt = profile->by_software.at("megatron-lm 2021");
  CHECK(learnt.rows == 16);
  CHECK(learnt.error_mean == 0.04);
  CHECK(learnt.calibration.matmul_share == 0.77);
  CHECK(learnt.calibration.exchange_share == 0.82);
  // What a file leaves out has its default.
  CHECK(learnt.calibration.memory_share == Calibration{}.memory_share);
}

TEST_CASE("what is wrong with a device kind is named with what is allowed") {
  struct Case {
    const char* from;
    const char* to;
    const char* message;
  };
  const Case c = GENERATE(values<Case>({
      {"matmul_share: 0.77", "matmul_part: 0.77",
       "calibrations[0].coefficients[matmul_part]: is no coefficient; allowed are matmul_share"},
      {"matmul_share: 0.77", "matmul_share: -1",
       "calibrations[0].coefficients[matmul_share]: -1 is not positive"},
      {"3.12e14", "0", "kind.yaml:2: matmul_flops_per_second: 0 is not in [1000000000, 1e+18]"},
      {"kind: A100-80", "kind: A100/80", "kind.yaml:1: kind: "},
      {", date: 2021-06", "", "kind.yaml:6: source.date: "},
      {"rows: 16", "row: 16", "kind.yaml:10: calibrations[0].row: "},
  }));
  CAPTURE(c.to);
  const absl::Status status = Read(Replaced(kKind, c.from, c.to)).status();
  CHECK(absl::IsInvalidArgument(status));
  INFO(status.message());
  CHECK(std::string(status.message()).find(c.message) != std::string::npos);
}

TEST_CASE("a software is given once") {
  const std::string text = kKind;
  const absl::Status status = Read(text + text.substr(text.find("  - software"))).status();
  CHECK(status.message() ==
        "calibrations[1].software: \"megatron-lm 2021\" is there before; each is allowed once");
}

}  // namespace
}  // namespace medley
