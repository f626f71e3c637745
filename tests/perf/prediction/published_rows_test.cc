#include "tests/perf/prediction/published_rows.h"

#include <catch2/catch.hpp>
#include <fstream>

namespace medley {
namespace {

using Records = std::vector<std::vector<std::string>>;

TEST_CASE("fields may hold commas, quotes and line ends if they are quoted") {
  CHECK(*ParseCsv("a,b\n1,\"x, \"\"y\"\"\nz\"\n") == Records{{"a", "b"}, {"1", "x, \"y\"\nz"}});
  CHECK(*ParseCsv("a,b\r\n,\r\n1,2") == Records{{"a", "b"}, {"", ""}, {"1", "2"}});
  CHECK(ParseCsv("").value().empty());
}

TEST_CASE("a quote that is not closed is named by its line") {
  CHECK(ParseCsv("a,b\n1,\"x\n\n").status().message() == "2: a quote is not closed");
}

std::string Written(const std::string& text) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/rows.csv";
  std::ofstream(path) << text;
  return path;
}

constexpr char kHeader[] =
    "source,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,global_batch,micro_batch,tp,pp,vpp,dp,recompute,"
    "gpus,"
    "gpu_type,interconnect,iter_time_s,tflops_per_gpu,mfu,memory_gib,note\n";

TEST_CASE("what a row does not say, or says of two runs, is 0") {
  const auto rows = ReadPublishedRows(
      Written(std::string(kHeader) +
              "S,GPT,24,1024,16,,4096,50257,1024,16,8,1,2 (4),,1,full,2,A100,NVLink,0.37,,,,n\n"));
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 1);
  const PublishedRow& row = rows->front();
  CHECK(row.record == 2);
  CHECK(row.hidden == 1024);
  CHECK(row.stages == 0);
  CHECK(row.chunks_per_stage == 0);
  CHECK(row.step_seconds == 0.37);
  CHECK(row.memory_gibibytes == 0);
  CHECK(row.note == "n");
}

TEST_CASE("a table without a column, or with a short row, is refused by name") {
  CHECK(ReadPublishedRows(Written("source,model\n"))
            .status()
            .message()
            .find(":1: the column recompute is missing") != absl::string_view::npos);
  CHECK(ReadPublishedRows(Written(std::string(kHeader) + "S,GPT\n"))
            .status()
            .message()
            .find(": record 2 has 2 fields; the header has 24") != absl::string_view::npos);
  CHECK(absl::IsNotFound(ReadPublishedRows("no/such/file.csv").status()));
}

}  // namespace
}  // namespace medley
