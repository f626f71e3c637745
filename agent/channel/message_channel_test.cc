#include "agent/channel/message_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "proto/medley/v1/agent.pb.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

struct Pair {
  Pair() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
  int ends[2];
};

TEST_CASE("messages arrive whole and in order, whatever their size") {
  Pair pair;
  MessageChannel left(pair.ends[0]), right(pair.ends[1]);
  bool sent = true;  // looked at after the thread has ended: Catch2's checks belong to one thread
  std::thread sender([&] {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{70'000}, size_t{3'000'000}}) {
      v1::WorkerEvent event;
      event.set_log(std::string(size, 'x'));
      sent = left.Send(event).ok() && sent;
    }
  });
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70'000}, size_t{3'000'000}}) {
    v1::WorkerEvent event;
    REQUIRE(right.Receive(event, absl::InfiniteFuture()).ok());
    CHECK(event.log().size() == size);
  }
  sender.join();
  CHECK(sent);
}

TEST_CASE("a receive ends at its deadline, and when the other end is gone") {
  Pair pair;
  MessageChannel right(pair.ends[1]);
  v1::WorkerEvent event;
  CHECK(right.Receive(event, Now() + absl::Milliseconds(20)).code() == absl::StatusCode::kDeadlineExceeded);
  close(pair.ends[0]);
  CHECK(right.Receive(event, absl::InfiniteFuture()).code() == absl::StatusCode::kUnavailable);
  CHECK(right.Send(event).code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("bytes that are no message are refused") {
  Pair pair;
  MessageChannel right(pair.ends[1]);
  v1::WorkerEvent event;
  const std::string bytes =
      GENERATE(std::string("\xff\xff\xff\xff", 4), std::string("\x02\0\0\0\x0a\xff", 6));
  REQUIRE(write(pair.ends[0], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  CHECK(right.Receive(event, absl::InfiniteFuture()).code() == absl::StatusCode::kDataLoss);
  close(pair.ends[0]);
}

}  // namespace
}  // namespace medley
