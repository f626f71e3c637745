// What a compared worker did, and small texts: device names and sizes.
#include "runtime/base/bytes.h"
#include "runtime/device/device_name.h"
#include "runtime/engine/align/device_record.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  DeviceRecord record{.device = "cpu:avx2/1", .name = "cpu-avx2 (1 core)", .losses = {4.5, 4.25}};
  std::vector<std::string> seeds = {EncodeDeviceRecord(record), "cpu:avx2/2", "1.5 GiB"};
  record.status = absl::UnavailableError("no device");
  record.losses.clear();
  seeds.push_back(EncodeDeviceRecord(record));
  return seeds;
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  const std::string text(TextOf(data, size));
  if (const absl::StatusOr<DeviceRecord> record = DecodeDeviceRecord(text); record.ok()) {
    Accepted();
    const std::string encoded = EncodeDeviceRecord(*record);
    const absl::StatusOr<DeviceRecord> again = DecodeDeviceRecord(encoded);
    Demand(again.ok(), "an accepted record is written so that it can be read");
    Demand(EncodeDeviceRecord(*again) == encoded, "it is read back as it was");
  } else {
    DemandRefusal(record.status());
  }
  if (const absl::StatusOr<DeviceDescription> device = ParseDeviceName(text); device.ok()) {
    Accepted();
  } else {
    DemandRefusal(device.status());
  }
  const int64_t bytes = ParseBytes(text).value;
  Demand(bytes >= -1, "a size is none, or not negative");
  if (bytes >= 0) Accepted();
  return 0;
}
