#pragma once
#include <cstddef>
#include <cstdint>

// The loops of a collective, for the widest vectors that the machine has. Numbers as in
// runtime/ir/collective/wire_type.h; the pointers of a call do not overlap.
namespace medley {

void AddFloats(float* sum, const float* come, size_t count);
void AddBf16(float* sum, const uint16_t* come, size_t count);
void WidenBf16(float* values, const uint16_t* come, size_t count);
void NarrowToBf16(uint16_t* wire, const float* values, size_t count);
// And rounds `values` to what goes out.
void NarrowAndRound(uint16_t* wire, float* values, size_t count);

}  // namespace medley
