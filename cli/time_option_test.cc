#include "cli/time_option.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a moment is so long ago, or a date in UTC") {
  CHECK(*ParseSince("90s", 1000) == 910);
  CHECK(*ParseSince("10m", 1000) == 400);
  CHECK(*ParseSince("1h30m", 10000) == 10000 - 5400);
  CHECK(*ParseSince("2d", 1e6) == 1e6 - 172800);
  CHECK(*ParseSince("0.5d", 1e6) == 1e6 - 43200);
  CHECK(*ParseSince("1970-01-02", 0) == 86400);
  CHECK(*ParseSince("1970-01-02 00:01", 0) == 86460);
  CHECK(*ParseSince("1970-01-02 00:01:01", 0) == 86461);
  CHECK(*ParseSince("1970-01-02T00:01:01", 0) == 86461);
}

TEST_CASE("what is no moment is refused") {
  const std::string text =
      GENERATE(as<std::string>(), "", "10", "-10m", "0s", "m", "d", "yesterday", "inf", "infd", "2026-13-01");
  CAPTURE(text);
  const absl::Status status = ParseSince(text, 1e9).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith("--since: \"" + text + "\" must be how long ago"));
}

TEST_CASE("a length of time is above 0") {
  CHECK(*ParseLength("--deadline", "90s") == 90);
  CHECK(*ParseLength("--deadline", "1h30m") == 5400);
  CHECK(*ParseLength("--deadline", "2d") == 172800);
  const std::string text = GENERATE(as<std::string>(), "", "10", "-10m", "0s", "nan", "inf", "soon");
  CAPTURE(text);
  const absl::Status status = ParseLength("--deadline", text).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() ==
        "--deadline " + text + ": must be a length of time above 0, as in 90s, 10m, 1h30m or 2d");
}

}  // namespace
}  // namespace medley
