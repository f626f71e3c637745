#include "runtime/security/key_exposure.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

// Root's own may be a group's, too.
TEST_CASE("a key that others can read is told with its field, its mode and how to mend it") {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("key.pem", "a key");
  const auto told = [&](mode_t mode) {
    REQUIRE(chmod(file.c_str(), mode) == 0);
    return KeyExposure("tls.key", file);
  };
  for (const mode_t mode : {0600, 0400}) CHECK(told(mode).empty());
  for (const mode_t mode : {0640, 0440}) CHECK(told(mode).empty() == (geteuid() == 0));
  for (const mode_t mode : {0644, 0604, 0602, 0666}) CHECK_FALSE(told(mode).empty());
  CHECK_THAT(told(0644), Catch::StartsWith("tls.key: ") && Catch::Contains(file) && Catch::Contains("0644") &&
                             Catch::Contains("chmod "));
  // The file counts that a link leads to, not the link, which everybody may read.
  const std::string link = directory.File("link.pem");
  REQUIRE(symlink(file.c_str(), link.c_str()) == 0);
  CHECK_FALSE(KeyExposure("tls.key", link).empty());
  CHECK(told(0600).empty());
  CHECK(KeyExposure("tls.key", link).empty());
}

TEST_CASE("of a key that others read as a group nothing is told where it is another's") {
  if (geteuid() != 0) return;  // who cannot give files away
  const TemporaryDirectory directory;
  const std::string file = directory.Write("key.pem", "a key");
  REQUIRE(chown(file.c_str(), 54321, 54322) == 0);
  REQUIRE(chmod(file.c_str(), 0440) == 0);
  CHECK(KeyExposure("tls.key", file).empty());
  REQUIRE(chmod(file.c_str(), 0444) == 0);
  CHECK_FALSE(KeyExposure("tls.key", file).empty());
}

TEST_CASE("of a key that is not there nothing is told") {
  CHECK(KeyExposure("tls.key", "/nowhere/key.pem").empty());
  CHECK(KeyExposure("tls.key", "").empty());
}

}  // namespace
}  // namespace medley
