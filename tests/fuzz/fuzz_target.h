#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

// What a fuzz target is made of. Each defines the two functions below; the entry is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace medley {

// Inputs to begin with, made in code; the decoder accepts every one of them.
std::vector<std::string> FuzzSeeds();

inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The target's word that the decoder has accepted the input; a driver holds the seeds against it.
void Accepted();
// Number of calls of Accepted() so far.
uint64_t AcceptedCount();

// Stops the process unless `holds`, with `what` on stderr: the finding.
void Demand(bool holds, const char* what);
// A refusal must be an error of one of our own codes, and have a message.
void DemandRefusal(const absl::Status& status);

}  // namespace medley
