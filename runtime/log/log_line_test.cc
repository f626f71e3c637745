#include "runtime/log/log_line.h"

#include <catch2/catch.hpp>

#include "nlohmann/json.hpp"

namespace medley {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
const LogLimits::Place kHere = {"a.cc", 7}, kElsewhere = {"a.cc", 8};

std::vector<std::string> Texts(const std::vector<LogLimits::Line>& lines) {
  std::vector<std::string> texts;
  for (const LogLimits::Line& line : lines) texts.push_back(line.text);
  return texts;
}

TEST_CASE("fields stand behind the text, and values that could be taken for more are quoted") {
  CHECK(TextLine("running", {}) == "running");
  CHECK(TextLine("running", {.job = "gpt-1", .attempt = 2, .rank = 0, .node = "n1", .request = "a.b"}) ==
        "running job=gpt-1 attempt=2 rank=0 node=n1 request=a.b");
  CHECK(TextLine("ends", {.node = "a b\" rank=7"}) == R"(ends node="a b\" rank=7")");
}

TEST_CASE("a text of several lines is one line") {
  CHECK(TextLine("cause\n2026-01-01 error agent: forged\r", {.job = "j"}) ==
        R"(cause\n2026-01-01 error agent: forged\r job=j)");
}

TEST_CASE("as members of a JSON object fields keep their types, and what is no UTF-8 is replaced") {
  const auto line = nlohmann::json::parse(
      "{" + JsonMembers("quo\"te\nand \xff", {.job = "j\"", .attempt = 3, .rank = 0, .request = "r"}) + "}");
  CHECK(line["message"] == "quo\"te\nand \xef\xbf\xbd");
  CHECK(line["job"] == "j\"");
  CHECK(line["attempt"] == 3);
  CHECK(line["rank"] == 0);
  CHECK(line["request"] == "r");
  CHECK(line.size() == 5);  // and no node
}

TEST_CASE("what a line leaves open is filled in, what it says stays") {
  const LogFields all =
      Completed({.job = "j", .rank = 0}, {.job = "other", .attempt = 4, .rank = 9, .node = "n"});
  CHECK(all.job == "j");
  CHECK(all.attempt == 4);
  CHECK(all.rank == 0);
  CHECK(all.node == "n");
}

TEST_CASE("twenty lines of a place go through at once, then one a second, which says how many did not") {
  LogLimits limits;
  for (int i = 0; i < 20; ++i) CHECK(limits.Admit(kHere, "again", kStart).size() == 1);
  for (int i = 0; i < 5; ++i) CHECK(limits.Admit(kHere, "again", kStart + absl::Milliseconds(900)).empty());
  CHECK(Texts(limits.Admit(kHere, "again", kStart + absl::Milliseconds(1001))) ==
        std::vector<std::string>{"again (5 lines like this were left out)"});
  CHECK(limits.Admit(kHere, "again", kStart + absl::Milliseconds(1100)).empty());
  CHECK(Texts(limits.Admit(kHere, "again", kStart + absl::Milliseconds(2200))) ==
        std::vector<std::string>{"again (1 line like this was left out)"});
  CHECK(limits.Rest().empty());
}

TEST_CASE("a clock that goes back lets nothing more through, and a long pause no more than twenty") {
  LogLimits limits;
  for (int i = 0; i < 20; ++i) CHECK(limits.Admit(kHere, "x", kStart).size() == 1);
  CHECK(limits.Admit(kHere, "x", kStart - absl::Hours(1)).empty());
  int written = 0;
  for (int i = 0; i < 100; ++i)
    written += static_cast<int>(limits.Admit(kHere, "x", kStart + absl::Hours(5)).size());
  CHECK(written == 20);
}

TEST_CASE("places are limited apart, and what one left out another says when it is silent") {
  LogLimits limits;
  for (int i = 0; i < 23; ++i) limits.Admit(kHere, "often", kStart);
  CHECK(Texts(limits.Admit(kElsewhere, "seldom", kStart)) == std::vector<std::string>{"seldom"});
  CHECK(Texts(limits.Admit(kElsewhere, "seldom", kStart + absl::Seconds(2))) ==
        std::vector<std::string>{"3 lines like \"often\" were left out", "seldom"});
  CHECK(Texts(limits.Admit(kElsewhere, "seldom", kStart + absl::Seconds(9))) ==
        std::vector<std::string>{"seldom"});
}

TEST_CASE("at the end all that was left out is said") {
  LogLimits limits;
  for (int i = 0; i < 22; ++i) limits.Admit(kHere, std::string(200, 'x'), kStart);
  CHECK(limits.Rest() ==
        std::vector<std::string>{"2 lines like \"" + std::string(100, 'x') + "...\" were left out"});
  CHECK(limits.Rest().empty());
}

}  // namespace
}  // namespace medley
