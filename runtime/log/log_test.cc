#include "runtime/log/log.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "runtime/log/request_id.h"

namespace medley {
namespace {

// The lines that `work` writes to standard output.
std::vector<std::string> LinesOf(const std::function<void()>& work) {
  std::fflush(stdout);
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int before = dup(STDOUT_FILENO);
  dup2(fileno(file), STDOUT_FILENO);
  work();
  EndLog();
  std::fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST_CASE(
    "a line has its own fields, those of the request that its thread serves, and those of the process") {
  StartLog(LogStyle::kJson, "test");
  SetLogContext({.node = "n1"});
  const std::vector<std::string> lines = LinesOf([] {
    const RequestScope request("outer");
    LogInfo("running", {.job = "gpt", .attempt = 1});
    {
      const RequestScope inner("inner");
      LogWarning("of another", {.node = "n2"});
    }
    LogError("again", {.request = "given"});
    std::thread([] { LogInfo("of no request"); }).join();
    LogDebug("too little");
  });
  SetLogContext({});
  REQUIRE(lines.size() == 4);
  std::vector<nlohmann::json> said;
  for (const std::string& line : lines) said.push_back(nlohmann::json::parse(line));
  CHECK(said[0]["message"] == "running");
  CHECK(said[0]["from"] == "test");
  CHECK(said[0]["level"] == "info");
  CHECK(said[0]["job"] == "gpt");
  CHECK(said[0]["attempt"] == 1);
  CHECK(said[0]["node"] == "n1");
  CHECK(said[0]["request"] == "outer");
  CHECK(said[1]["level"] == "warning");
  CHECK(said[1]["request"] == "inner");
  CHECK(said[1]["node"] == "n2");
  CHECK(said[2]["level"] == "error");
  CHECK(said[2]["request"] == "given");
  CHECK_FALSE(said[3].contains("request"));
}

TEST_CASE("threads that log at once write whole lines, and no place more than its limit") {
  StartLog(LogStyle::kText, "test");
  const std::vector<std::string> lines = LinesOf([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 2000; ++i) LogInfo("storm", {.rank = 3});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  size_t told = 0, written = 0;
  for (const std::string& line : lines) {
    CAPTURE(line);
    static const std::regex form(
        R"re(\S+ \S+ (?:info|warning) test: (storm )?(?:\((\d+) lines? like this (?:was|were) left out\) )?)re"
        R"re((?:rank=3)?(?:(\d+) lines? like "storm" (?:was|were) left out)?)re");
    std::smatch found;
    REQUIRE(std::regex_match(line, found, form));
    if (found[1].matched) ++written;
    if (found[2].matched) told += std::stoul(found[2]);
    if (found[3].matched) told += std::stoul(found[3]);
  }
  CHECK(written >= 20);
  CHECK(told + written == 8000);
}

TEST_CASE("an id of a request is checked, and one that is none is replaced") {
  for (const char* good :
       {"a", "A.b_c-9", "0123456789012345678901234567890123456789012345678901234567890123"})
    CHECK(RequestIdOr(good) == good);
  for (const std::string bad : {"", "a b", "a\n", "\xc3\xa4", "a=b",
                                "01234567890123456789012345678901234567890123456789012345678901234"}) {
    CAPTURE(bad);
    CHECK_FALSE(IsRequestId(bad));
    CHECK(IsRequestId(RequestIdOr(bad)));
  }
  CHECK(RequestIdOr("") != RequestIdOr(""));
}

}  // namespace
}  // namespace medley
