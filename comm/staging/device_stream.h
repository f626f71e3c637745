#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/staging/device_message.h"
#include "comm/staging/staging_memory.h"
#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// Messages between the memory of one device and the peers, each by the way that both ends' terms ask for:
// what is sent here with a tag is received there with the same tag and size, whatever the two memories are.
//
// For one line of messages, such as those that a stream of a step program sends: one thread at a time,
// blocking, no thread of its own. Lines that go on at once have a stream each, with its own lane and pinned
// memory; that comes with the first message that needs it: a ring of up to four chunks of up to 4 MiB, or
// where the whole is copied as much as the largest message.
class DeviceStream {
 public:
  // `terms_by_rank`: of every rank, this one's the own. `queue` and `transport` outlive the stream.
  // InvalidArgument: not as many terms as ranks. Others: of DeviceQueue::OpenCopyLane, which is called where
  // the own terms need it.
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Open(DeviceQueue& queue, Transport& transport,
                                                            std::vector<StagingTerms> terms_by_rank);
  // Waits for copies under way.
  ~DeviceStream();

  // Blocks until the span may be used again, or holds the message. A span is only touched between its fence
  // and the return, error or not. After an error messages of that peer and tag may have been sent in part:
  // the attempt is over.
  //   InvalidArgument    as Transport; or there is no such peer, or the own terms are none for the span's
  //                      memory.
  //   OutOfRange         the span passes the end of its buffer; nothing was sent.
  //   ResourceExhausted  there is no pinned memory left; nothing was sent.
  //   others             of the transport, with the peer, and which chunk it was; or of the device.
  absl::Status Send(const DeviceMessage& message, absl::Time deadline);
  absl::Status Receive(const DeviceMessage& message, absl::Time deadline);

  // As Receive, but returns when all of the message has come, while it may still be copied into the span: who
  // uses it next has to wait for that, best on the device (DeviceQueue::AwaitLane). The lane is the stream's.
  absl::StatusOr<MessageArrival> ReceiveBehind(const DeviceMessage& message, absl::Time deadline);

  Handling handling() const { return terms_by_rank_[transport_.rank()].handling; }

 private:
  enum class Direction { kSend, kReceive };
  DeviceStream(DeviceQueue& queue, Transport& transport, std::vector<StagingTerms> terms_by_rank)
      : queue_(queue), transport_(transport), terms_by_rank_(std::move(terms_by_rank)) {}
  absl::StatusOr<MessageArrival> Run(Direction direction, const DeviceMessage& message, absl::Time deadline);
  absl::StatusOr<MessageArrival> RunWhole(Direction direction, const DeviceMessage& message,
                                          absl::Time deadline, int64_t piece_bytes);
  // The pinned memory is free: the last message has been copied from it.
  absl::Status AwaitLastArrival();

  DeviceQueue& queue_;
  Transport& transport_;
  const std::vector<StagingTerms> terms_by_rank_;
  StagingMemory memory_;
  std::unique_ptr<CopyLane> lane_;     // null where nothing is copied
  std::optional<Fence> last_arrival_;  // of the lane, until it has been waited for
};

}  // namespace medley
