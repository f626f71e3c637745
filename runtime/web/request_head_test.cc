#include "runtime/web/request_head.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

using State = RequestHead::State;

std::string Headers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, "X-", i, ": 1\r\n");
  return text;
}

TEST_CASE("a head ends with its blank line, in however many pieces it comes") {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", all = head + "body";
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    RequestHead examined;
    size_t taken = 0;
    for (size_t at = 0; at < all.size(); at += piece)
      taken += examined.Take(absl::string_view(all).substr(at, piece));
    CHECK(examined.state() == State::kComplete);
    CHECK(taken == head.size());
  }
}

TEST_CASE("what is not ended waits for more") {
  for (const std::string text : {"", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n",
                                 "GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\n\r"}) {
    RequestHead examined;
    CHECK(examined.Take(text) == text.size());
    CHECK(examined.state() == State::kIncomplete);
  }
}

struct Refusal {
  std::string bytes;
  int status;
  std::string why;
};

TEST_CASE("a head is refused at the byte at which it is too large") {
  const std::string line = "GET / HTTP/1.1\r\n";
  const auto [bytes, status, why] = GENERATE_REF(values<Refusal>(
      {{std::string(RequestHead::kMostLineBytes, 'a'), 414, "the request line may have 8192 bytes"},
       {line + std::string(RequestHead::kMostLineBytes, 'a'), 431, "a header may have 8192 bytes"},
       {line + Headers(RequestHead::kMostHeaders) + "X: 1\r", 431, "a request may have 100 headers"},
       {line + "A: " + std::string(8000, 'a') + "\r\nA: " + std::string(8000, 'a') +
            "\r\nA: " + std::string(8000, 'a') + "\r\nA: " + std::string(8000, 'a') +
            "\r\nA: " + std::string(RequestHead::kMostBytes - line.size() - 4 * 8005 - 3, 'a'),
        431, "the request's head may have 32768 bytes"}}));
  RequestHead examined;
  CHECK(examined.Take(bytes) == bytes.size());
  CHECK(examined.state() == State::kIncomplete);
  CHECK(examined.Take("\n\n") == 1);
  CHECK(examined.state() == State::kRefused);
  CHECK(examined.status() == status);
  CHECK(examined.why() == why);
}

TEST_CASE("a head without what asks for parts of an answer") {
  CHECK(WithoutRange("GET /range: HTTP/1.1\r\nRANGE: bytes=0-1\r\nA: range:\r\nrange:x\r\n\r\n") ==
        "GET /range: HTTP/1.1\r\nA: range:\r\n\r\n");
  CHECK(WithoutRange("GET / HTTP/1.1\nrange: a\n\r\n") == "GET / HTTP/1.1\n\r\n");
  CHECK(WithoutRange("range:").empty());
  CHECK(WithoutRange("").empty());
}

}  // namespace
}  // namespace medley
