#pragma once
#include <vector>

#include "runtime/ir/program/program.h"

namespace medley {

// Gives buffers to the contents that the operands of `instructions` name, and adds what each instruction has
// to wait for.
//
// On entry an operand's index is the number of its content among those of its kind, from 0; a content is
// filled once, released once, and used by nobody outside that. The list is in an order in which the
// instructions could run. On return the index is that of a buffer: the one of its kind that has been free for
// longest, or a new one if none is. A buffer that travels, or that a store releases, stays taken until the next
// one of its kind is filled, so that one is computed with while another is on its way. Who reads a content waits
// for who wrote it last, who writes or releases it also for those who have read it since, and who fills a buffer
// for who released it, unless their stream keeps them in that order. Returns how many buffers of each kind there
// are. Pure.
BufferCounts AssignBuffers(std::vector<Instruction>& instructions);

}  // namespace medley
