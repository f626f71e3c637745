#include "comm/ucx/stray_messages.h"

#include "comm/transport/message_tag.h"

namespace medley {
namespace {

// A receive without room: UCX answers a sender that waits for its memory to be read, and copies nothing.
void Swallow(ucp_worker_h worker, ucp_tag_message_h message) {
  static std::byte nowhere;
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request = ucp_tag_msg_recv_nbx(worker, &nowhere, /*count=*/0, message, &params);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);  // goes once it is complete
}

}  // namespace

uint64_t DropStrayMessages(ucp_worker_h worker, uint32_t token) {
  uint64_t dropped = 0;
  // A token that is not ours differs in at least one bit, and UCX finds messages by bits.
  for (int bit = kTokenShift; bit < kTokenShift + kAttemptTokenBits; ++bit) {
    const ucp_tag_t mask = uint64_t{1} << bit;
    const ucp_tag_t other = ~(static_cast<uint64_t>(token) << kTokenShift) & mask;
    ucp_tag_recv_info_t info;
    while (const ucp_tag_message_h message = ucp_tag_probe_nb(worker, other, mask, /*remove=*/1, &info)) {
      Swallow(worker, message);
      ++dropped;
    }
  }
  return dropped;
}

}  // namespace medley
