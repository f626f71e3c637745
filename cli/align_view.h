#pragma once
#include <array>
#include <string>

#include "runtime/engine/align/align_directory.h"

// What an alignment found, as text for people and as JSON. Pure.
namespace medley {

struct AlignmentReport {
  std::array<DeviceRecord, kParties> records;  // by Party
  Alignment alignment;
  LossComparison losses;  // of the steps that both devices came to
};

// No call parted, at least one was compared, both trained to the end, and their losses did not part.
bool IsAligned(const AlignmentReport& report);

// One sentence: that the devices are aligned, or what the first thing is in which they part, and which of
// them is off.
std::string Verdict(const AlignmentReport& report);

// The verdict; the worst of each op and shape; the losses; the details of what parted; what was left out.
// Ends with a line break.
std::string FormatAlignment(const AlignmentReport& report);

// The same figures, one line. Numbers that JSON cannot hold are texts: "nan", "inf", "-inf".
std::string AlignmentJson(const AlignmentReport& report);

}  // namespace medley
