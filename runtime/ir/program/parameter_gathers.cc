#include "runtime/ir/program/parameter_gathers.h"

#include <algorithm>

namespace medley {

void ParameterGathers::Write() {
  gathers_parameters_ = true;
  const std::vector<GradientSlice>& slices = writer_.program().slices;
  for (int end = static_cast<int>(slices.size()), first = end; end > 0; end = first) {
    for (--first; first > 0 && slices[first - 1].first_segment == slices[end - 1].first_segment;) --first;
    for (int s = first; s < end; ++s) WriteOf(s);
  }
}

// Otherwise each time before they are used.
bool ParameterGathers::AtBegin(bool on_peers) const {
  return !(on_peers && writer_.unit().parameters_have_windows());
}

void ParameterGathers::WriteOf(int s) {
  const GradientSlice& slice = writer_.program().slices[s];
  if (!AtBegin(slice.on_peers)) return;
  const int gather = writer_.Add(writer_.MakeOfSlice(InstructionKind::kGatherParameters, s));
  gathers_.push_back(gather);
  for (SegmentId segment = slice.first_segment; segment < slice.end_segment; ++segment) {
    if (slice.in_host_memory && segment != kTiedSegment)
      writer_.windows().HomeChanged(BufferKind::kParameterWindow, BlockOfSegment(segment), gather);
  }
}

const GradientSlice& ParameterGathers::SliceOf(int gather) const {
  const StepProgram& program = writer_.program();
  return program.slices[program.instructions[gather].slice];
}

int ParameterGathers::LastOf(BlockRange blocks) const {
  for (auto gather = gathers_.rbegin(); gather != gathers_.rend(); ++gather) {
    const GradientSlice& slice = SliceOf(*gather);
    if (HoldsAny(writer_.shape().model, {blocks}, slice.first_segment, slice.end_segment)) return *gather;
  }
  return -1;
}

BlockId ParameterGathers::EndOfPiece(BlockId first) const {
  BlockId end = writer_.chunk().end;
  if (!gathers_parameters_) return end;
  for (const StepWriter::SliceBegin& begin : writer_.slice_begins()) {
    if (AtBegin(begin.on_peers) && begin.block > first) end = std::min(end, begin.block);
  }
  return end;
}

}  // namespace medley
