#include "agent/joining/pair_file.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/files/atomic_file.h"
#include "runtime/security/authority.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/test_certificates.h"

namespace {
int renames_until_death = -1;
}  // namespace

// In the place of libc's: what is under test changes names by it alone, and dies before the one that was counted.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (renames_until_death-- == 0) _exit(1);
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace medley {
namespace {

namespace fs = std::filesystem;

struct Pair {
  const TestCertificates certificates;
  v1::TlsConfig tls = certificates.Issue("node1", {.name = "node1", .role = v1::ROLE_AGENT});
  const KeyAndCertificate next = New("node1");

  KeyAndCertificate New(const std::string& name) const {
    return *Issue(certificates.authority(), {.name = name, .role = v1::ROLE_AGENT}, {}, absl::Hours(1));
  }
  absl::Status Replace(const KeyAndCertificate& by) const { return ReplacePair(tls, by.key, by.certificate); }
  std::string Key() const { return *ReadPemFile("", tls.key()); }
  void CheckFits() const {
    const absl::StatusOr<Certificate> shown = CheckTls(tls);
    INFO(shown.status());
    CHECK(shown.ok());
  }
};

void CheckIs(const Pair& pair, const KeyAndCertificate& expected) {
  pair.CheckFits();
  CHECK(*ReadPemFile("", pair.tls.key()) == expected.certificate + expected.key);
  CHECK(*ReadPemFile("", pair.tls.certificate()) == expected.certificate + expected.key);
}

TEST_CASE("a pair is replaced again and again, and nobody else can read it") {
  const Pair pair;
  REQUIRE(pair.Replace(pair.next).ok());
  CheckIs(pair, pair.next);
  const KeyAndCertificate third = pair.New("node1");
  REQUIRE(pair.Replace(third).ok());
  CheckIs(pair, third);
  CHECK(fs::status(pair.tls.key()).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(fs::exists(pair.tls.key() + ".pair"));
  CHECK_FALSE(fs::exists(pair.tls.key() + ".pair.next"));
}

TEST_CASE("names in different folders are links to one file") {
  Pair pair;
  const TemporaryDirectory elsewhere;
  fs::rename(pair.tls.certificate(), elsewhere.File("certificate.pem"));
  pair.tls.set_certificate(elsewhere.File("certificate.pem"));
  REQUIRE(pair.Replace(pair.next).ok());
  CheckIs(pair, pair.next);
}

// Each rename is a moment at which the names that others see change; before each the process is ended once.
TEST_CASE("a process that dies while it replaces a pair leaves the old one or the new one") {
  const Pair pair;
  std::string current = *ReadPemFile("", pair.tls.certificate());
  int moments_expected = 6;  // four files and links are put in place, then the new pair, then it is over
  SECTION("for the first time") {}
  SECTION("again") {
    const KeyAndCertificate second = pair.New("node1");
    REQUIRE(pair.Replace(second).ok());
    current = second.certificate;
    moments_expected = 3;
  }
  SECTION("after it joined again, which replaces the certificate alone") {
    const KeyAndCertificate second = pair.New("node1");
    REQUIRE(pair.Replace(second).ok());
    current = *IssueFor(pair.certificates.authority(), *PublicKeyOf(second.key),
                        {.name = "node1", .role = v1::ROLE_AGENT}, {}, absl::Hours(1));
    REQUIRE(WriteFileAtomically(pair.tls.certificate(), current).ok());
  }
  int moments = 0;
  for (int status = -1; status != 0; ++moments) {
    CAPTURE(moments);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      renames_until_death = moments;
      _exit(pair.Replace(pair.next).ok() ? 0 : 2);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) != 2);
    pair.CheckFits();
    CHECK_THAT(*ReadPemFile("", pair.tls.certificate()),
               Catch::StartsWith(status == 0 ? pair.next.certificate : current));
  }
  CHECK(moments == moments_expected);
  CheckIs(pair, pair.next);
}

TEST_CASE("what does not fit, or is not in force, replaces nothing") {
  const Pair pair;
  const std::string before = pair.Key();
  const KeyAndCertificate other = pair.New("node2");
  CHECK(absl::IsInvalidArgument(ReplacePair(pair.tls, other.key, pair.next.certificate)));
  const TestCertificates strangers("strangers");
  const v1::TlsConfig strange = strangers.Issue(v1::ROLE_AGENT);
  CHECK(absl::IsInvalidArgument(
      ReplacePair(pair.tls, *ReadPemFile("", strange.key()), *ReadPemFile("", strange.certificate()))));
  const auto late =
      Issue(pair.certificates.authority(), {.name = "node1", .role = v1::ROLE_AGENT}, {}, -absl::Hours(1));
  CHECK(absl::IsFailedPrecondition(pair.Replace(*late)));
  CHECK(pair.Key() == before);
  pair.CheckFits();
}

}  // namespace
}  // namespace medley
