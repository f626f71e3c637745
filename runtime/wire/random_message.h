#pragma once
#include <random>

#include "google/protobuf/message.h"

namespace medley {

// Fills `message` with values that hold to its rules, every field set half of the time, for tests.
void FillRandomly(google::protobuf::Message& message, std::mt19937_64& random);

}  // namespace medley
