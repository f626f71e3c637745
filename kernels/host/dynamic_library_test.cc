#include "kernels/host/dynamic_library.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/base/status_macros.h"

// As a header that renames its function does.
#define cbrt_renamed cbrt

namespace medley {
namespace {

#define EACH_FUNCTION(X) X(cosh) X(cbrt_renamed)
struct Table {
  double (*cosh)(double) = nullptr;
  double (*cbrt_renamed)(double) = nullptr;
};

absl::Status ResolveAll(const DynamicLibrary& library, Table& table) {
  EACH_FUNCTION(MEDLEY_RESOLVE_MEMBER)
  return absl::OkStatus();
}

TEST_CASE("the first library that is there opens, and its functions are the real ones, renamed ones too") {
  const auto library = DynamicLibrary::Open("the mathematics", {"libno-such.so.1", "libm.so.6"});
  INFO(library.status().ToString());
  REQUIRE(library.ok());
  Table table;
  REQUIRE(ResolveAll(*library, table).ok());
  CHECK(table.cosh(0.0) == 1.0);
  CHECK(table.cbrt_renamed(27.0) == Approx(3.0));
}

TEST_CASE("a library that is not there is unavailable, by name and with the loader's words") {
  const auto library = DynamicLibrary::Open("the driver", {"libno-such.so.2", "libno-such.so.1"});
  CHECK(absl::IsUnavailable(library.status()));
  const std::string message(library.status().message());
  CHECK_THAT(message,
             Catch::StartsWith("the driver is not on this machine: no libno-such.so.2 or libno-such.so.1 ("));
  CHECK_THAT(message, Catch::Contains("cannot open shared object file"));
}

TEST_CASE("a library without a function is too old") {
  const auto library = DynamicLibrary::Open("the mathematics", {"libm.so.6"});
  REQUIRE(library.ok());
  double (*function)(double) = nullptr;
  const absl::Status status = library->Resolve("cosh_v9", &function);
  CHECK(absl::IsUnavailable(status));
  CHECK(std::string(status.message()) == "the mathematics is too old: libm.so.6 has no cosh_v9");
  CHECK(function == nullptr);
}

}  // namespace
}  // namespace medley
