#include "tests/perf/prediction/all_reduce_tables.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr char kHeader[] = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n";

std::string EmptyFolder() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::filesystem::path path =
      std::filesystem::path(folder != nullptr ? folder : "/tmp") / "all_reduce_tables";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

void Write(const std::string& folder, int members, const std::string& rows) {
  std::ofstream(absl::StrCat(folder, "/AR_GPU", members, "_1M_1024M_LUT")) << kHeader << rows;
}

TEST_CASE("tables are read by number of members, in place and in seconds") {
  const std::string folder = EmptyFolder();
  CHECK(absl::IsNotFound(ReadAllReduceTables(folder).status()));
  Write(folder, 2, "1000,250,float,9,1,1000,1\n1001,250,float,9,1,7777,1\n2000,500,float,9,1,3000,1\n");
  Write(folder, 8, "1000,250,float,9,1,8000,1\n2000,500,float,9,1,6000,1\n");
  const auto tables = ReadAllReduceTables(folder);
  REQUIRE(tables.ok());
  REQUIRE(tables->size() == 2);
  CHECK((*tables)[0].members == 2);
  // A size beside another says no more.
  CHECK((*tables)[0].seconds.Seconds(1000) == Approx(1e-6));
  CHECK((*tables)[0].seconds.Seconds(1500) == Approx(2e-6));
  // A sum does not get faster by growing.
  CHECK((*tables)[1].members == 8);
  CHECK((*tables)[1].seconds.Seconds(2000) == Approx(7e-6));
}

TEST_CASE("a row that is none is refused by its file and place") {
  const std::string folder = EmptyFolder();
  Write(folder, 4, "1000,250,float,9,1,8000,1\n2000,500,float,9,1\n");
  CHECK_THAT(std::string(ReadAllReduceTables(folder).status().message()),
             Catch::Contains("/AR_GPU4_1M_1024M_LUT: record 3 is not a size"));
  Write(folder, 4, "");
  CHECK_THAT(std::string(ReadAllReduceTables(folder).status().message()),
             Catch::Contains(": no row is there"));
}

}  // namespace
}  // namespace medley
