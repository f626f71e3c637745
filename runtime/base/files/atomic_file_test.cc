#include "runtime/base/files/atomic_file.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "runtime/base/files/scarce_disk.h"
#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST_CASE("what its owner alone may read, nobody else may") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("a");
  REQUIRE(WriteFileAtomically(path, "open").ok());
  REQUIRE(WriteFileAtomically(path, "secret", kOwnerAlone).ok());
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("a committed file holds what was appended, and its digest is that of its contents") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{20}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TemporaryDirectory directory;
  auto file = AtomicFile::Create(directory.File("a"));
  REQUIRE(file.ok());
  std::string whole;
  for (uint64_t part = 0; part < seed % 5; ++part) {
    std::string piece(random() % 5000, '\0');
    for (char& c : piece) c = static_cast<char>(random());
    REQUIRE((*file)->Append(BytesOf(piece)).ok());
    whole += piece;
  }
  const auto digest = (*file)->Commit();
  REQUIRE(digest.ok());
  CHECK(Contents(directory.File("a")) == whole);
  CHECK(*digest == DigestOf(BytesOf(whole)));
  CHECK(digest->bytes == static_cast<int64_t>(whole.size()));
}

TEST_CASE("digests are XXH3_64bits with seed 0") {
  CHECK(DigestOf(BytesOf("")).xxh3 == 0x2d06800538d394c2u);
  CHECK(DigestOf(BytesOf("medley\n")).xxh3 == 0xaf702bd6078b2dcbu);
}

TEST_CASE("until the commit the former file is there, and without one it stays and nothing else does") {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("a", "former");
  {
    auto file = AtomicFile::Create(path);
    REQUIRE(file.ok());
    REQUIRE((*file)->Append(BytesOf("new")).ok());
    CHECK(Contents(path) == "former");
    CHECK(Names(directory.path()).size() == 2);
  }
  CHECK(Contents(path) == "former");
  CHECK(Names(directory.path()) == std::vector<std::string>{"a"});
  REQUIRE(WriteFileAtomically(path, "new").ok());
  CHECK(Contents(path) == "new");
}

TEST_CASE("two writers of one path do not mix") {
  const TemporaryDirectory directory;
  auto first = AtomicFile::Create(directory.File("a"));
  auto second = AtomicFile::Create(directory.File("a"));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE((*first)->Append(BytesOf("first")).ok());
  REQUIRE((*second)->Append(BytesOf("second")).ok());
  REQUIRE((*second)->Commit().ok());
  CHECK(Contents(directory.File("a")) == "second");
  REQUIRE((*first)->Commit().ok());
  CHECK(Contents(directory.File("a")) == "first");
}

TEST_CASE("a write past the file size limit is ResourceExhausted and leaves nothing behind") {
  const TemporaryDirectory directory;
  absl::Status status, again;
  {
    auto file = AtomicFile::Create(directory.File("big"));
    REQUIRE(file.ok());
    const FileSizeLimit limit(1000);
    status = (*file)->Append(BytesOf(std::string(5000, 'x')));
    again = (*file)->Commit().status();
  }
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Contains(directory.File("big")) && Contains("File too large"));
  CHECK(again == status);
  CHECK(Names(directory.path()).empty());
}

TEST_CASE("a full disk is ResourceExhausted and leaves nothing behind") {
  const TemporaryDirectory directory;
  const SmallDisk disk(directory.File("disk"));
  if (!disk.mounted()) {
    WARN("no file system can be mounted here: a full disk is not tried");
    return;
  }
  const absl::Status status = WriteFileAtomically(directory.File("disk/big"), std::string(200'000, 'x'));
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Contains("disk/big") && Contains("No space left on device"));
  CHECK(Names(directory.File("disk")).empty());
  CHECK(WriteFileAtomically(directory.File("disk/small"), "fits").ok());
}

TEST_CASE("a path that cannot be written is an error with the path and the cause") {
  const TemporaryDirectory directory;
  const auto missing = AtomicFile::Create(directory.File("none/a"));
  CHECK(absl::IsNotFound(missing.status()));
  CHECK_THAT(std::string(missing.status().message()), Contains("none/a") && Contains("No such file"));
  std::filesystem::create_directories(directory.File("occupied/b"));
  CHECK_FALSE(WriteFileAtomically(directory.File("occupied"), "x").ok());
  CHECK(Names(directory.path()) == std::vector<std::string>{"occupied"});
}

TEST_CASE("directories are created with their parents, and again without complaint") {
  const TemporaryDirectory directory;
  CHECK(CreateDirectories(directory.File("a/b/c")).ok());
  CHECK(CreateDirectories(directory.File("a/b/c")).ok());
  CHECK(std::filesystem::is_directory(directory.File("a/b/c")));
  directory.Write("file", "");
  CHECK(absl::IsAlreadyExists(CreateDirectories(directory.File("file"))));
  CHECK(absl::IsNotFound(CreateDirectories(directory.File("file/below"))));
}

}  // namespace
}  // namespace medley
