// The head of a request to a daemon's web server.
#include "absl/status/status.h"
#include "runtime/web/request_head.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  return {"GET / HTTP/1.1\r\nHost: 127.0.0.1:7071\r\n\r\n",
          "POST /api/v1/GetJob HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  const std::string_view text = TextOf(data, size);
  RequestHead whole, in_bytes;
  const size_t taken = whole.Take({text.data(), text.size()});
  size_t taken_in_bytes = 0;
  for (const char& byte : text) taken_in_bytes += in_bytes.Take({&byte, 1});
  Demand(taken == taken_in_bytes && whole.state() == in_bytes.state(), "in pieces it is the same");
  Demand(taken <= RequestHead::kMostBytes + 1, "no more is taken than there may be");
  switch (whole.state()) {
    case RequestHead::State::kComplete:
      Demand(text.substr(0, taken).substr(taken - 3) == "\n\r\n", "it ends with a blank line");
      Accepted();
      break;
    case RequestHead::State::kRefused:
      Demand(whole.status() == 414 || whole.status() == 431, "a refusal has one of its statuses");
      DemandRefusal(absl::InvalidArgumentError(whole.why()));
      break;
    case RequestHead::State::kIncomplete:
      Demand(taken == text.size(), "all is taken of what is not ended");
  }
  return 0;
}
