#pragma once
#include <ucp/api/ucp.h>

#include <cstdint>

namespace medley {

// Takes messages that do not carry `token` (in the bits that message_tag.h gives it) out of the queue of
// those that arrived and match no receive, and drops them; returns how many. Nobody will ever receive them,
// and UCX would keep them for good. Costs 24 walks through that queue, nothing where it is empty.
uint64_t DropStrayMessages(ucp_worker_h worker, uint32_t token);

}  // namespace medley
