#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"

// What every kind of memory is held to as an end of device messages; each test program has the kinds that it
// can open.
namespace medley {

struct TestEnd {
  std::string name;
  std::function<std::unique_ptr<DeviceQueue>()> open;
  std::vector<Handling> handlings;
  bool keeps_bytes = true;  // false: what is in its memory is zeros whatever is copied there
};

// Every end with every handling sends to every other, over every transport: random sizes and offsets, bit for
// bit.
void CheckAllPairs(const std::vector<TestEnd>& ends);

// A transport that reaches memory of `type` as if it were the host's, which in tests it is.
std::unique_ptr<Transport> ReachingToo(Transport& transport, MemoryType type);

}  // namespace medley
