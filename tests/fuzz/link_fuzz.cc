// Measured links, from agents, the store and cluster files.
#include "runtime/wire/link_codec.h"
#include "runtime/wire/validate.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  v1::LinkProfile link;
  link.set_a("a/cpu0");
  link.set_b("b/cpu0");
  link.set_latency_seconds(1e-5);
  link.set_bytes_per_second(1e9);
  link.set_all_reduce_bytes_per_second(5e8);
  std::vector<std::string> seeds = {link.SerializeAsString()};
  for (const double bytes : {0.0, 8.0, 65536.0, 1e8}) {
    v1::LinkPoint& point = *link.add_transfer();
    point.set_bytes(bytes);
    point.set_seconds(1e-5 + bytes * 1e-9);
    *link.add_exchange() = point;
  }
  seeds.push_back(link.SerializeAsString());
  return seeds;
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  v1::LinkProfile link;
  if (!link.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::Status valid = ValidateMessage(link);
  if (!valid.ok()) {
    DemandRefusal(valid);
    return 0;
  }
  const absl::StatusOr<LinkCost> cost = DecodeLink(link);
  if (!cost.ok()) {
    DemandRefusal(cost.status());
    return 0;
  }
  Accepted();
  for (const LinkModel* model : {&cost->transfer, &cost->exchange}) {
    double before = 0;
    for (double bytes = 0; bytes < 1e12; bytes = bytes * 7 + 1) {
      const double seconds = model->Seconds(bytes);
      Demand(seconds >= before, "more bytes take no less time, and never a negative or undefined one");
      before = seconds;
    }
    Demand(model->BytesPerSecond() > 0, "a rate is positive");
  }
  return 0;
}
