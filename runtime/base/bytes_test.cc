#include "runtime/base/bytes.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("sizes are printed for people") {
  CHECK(FormatBytes({512}) == "512 B");
  CHECK(FormatBytes(KiB(3)) == "3.0 KiB");
  CHECK(FormatBytes(MiB(1536)) == "1.5 GiB");
}

TEST_CASE("sizes are read in binary and decimal units, and nothing else is") {
  CHECK(ParseBytes("512MiB") == MiB(512));
  CHECK(ParseBytes("1.5 GiB") == MiB(1536));
  CHECK(ParseBytes("64 kB") == Bytes{64000});
  CHECK(ParseBytes("1073741824") == GiB(1));
  for (const char* bad : {"", "MiB", "-1", "12 parsecs", "1e30 TiB", "nan"}) {
    CAPTURE(bad);
    CHECK(ParseBytes(bad) == Bytes{-1});
  }
}

}  // namespace
}  // namespace medley
