#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace medley {

// Which number the message has to have that comes to each receive of one tag: receives take messages in the order in which they
// were posted. Not thread-safe.
class ReceiveOrder {
 public:
  // A receive is posted; names it from now on.
  uint64_t Post();
  // The number that is due to it, until it is taken or cancelled.
  uint64_t Due(uint64_t receive) const;
  // It has got a message.
  void Take(uint64_t receive);
  // It has gone without a message: what comes goes to those after it.
  void Cancel(uint64_t receive);

 private:
  uint64_t posted_ = 0;  // ever
  uint64_t next_ = 0;    // due to the next one
  std::vector<std::pair<uint64_t, uint64_t>>
      open_;  // receive and what is due to it, as they were posted; a few
};

}  // namespace medley
