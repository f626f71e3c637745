#include "runtime/base/files/file_reader.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>

#include "runtime/base/files/file_fingerprint.h"
#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;

std::string RandomText(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST_CASE("a file is read at any place, and its end is an error") {
  const TemporaryDirectory directory;
  const std::string text = RandomText((size_t{3} << 20) + 17, 1), path = directory.Write("file", text);
  CHECK(*ReadTextFile(path) == text);
  const auto reader = FileReader::Open(path);
  REQUIRE(reader.ok());
  CHECK(reader->bytes() == static_cast<int64_t>(text.size()));
  std::string piece(100, '\0');
  const absl::Span<std::byte> to(reinterpret_cast<std::byte*>(piece.data()), piece.size());
  REQUIRE(reader->Read(12345, to).ok());
  CHECK(piece == text.substr(12345, 100));
  CHECK(absl::IsOutOfRange(reader->Read(reader->bytes() - 99, to)));
}

TEST_CASE("a file that was cut after it was opened is an error with its name") {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("file", RandomText(10'000, 2));
  const auto reader = FileReader::Open(path);
  REQUIRE(reader.ok());
  std::filesystem::resize_file(path, 5'000);
  std::vector<std::byte> bytes(10'000);
  const absl::Status status = reader->Read(0, absl::MakeSpan(bytes));
  CHECK(absl::IsOutOfRange(status));
  CHECK_THAT(std::string(status.message()), Contains(path + ": ends before byte 10000"));
}

TEST_CASE("what is no regular file is refused") {
  const TemporaryDirectory directory;
  CHECK(absl::IsInvalidArgument(FileReader::Open(directory.path()).status()));
  REQUIRE(mkfifo(directory.File("pipe").c_str(), 0600) == 0);
  CHECK(absl::IsInvalidArgument(FileReader::Open(directory.File("pipe")).status()));
  CHECK(absl::IsNotFound(FileReader::Open(directory.File("none")).status()));
}

TEST_CASE("files of equal contents have equal fingerprints, others do not") {
  const TemporaryDirectory directory;
  const size_t size =
      GENERATE(size_t{0}, size_t{10'000}, size_t{64 * 4096}, size_t{64 * 4096 + 1}, size_t{5} << 20);
  CAPTURE(size);
  std::string text = RandomText(size, 3);
  const std::string whole = *FileFingerprint(directory.Write("a", text));
  CHECK_THAT(whole, Contains(std::to_string(size) + " bytes hash "));
  CHECK(*FileFingerprint(directory.Write("b", text)) == whole);
  CHECK(*FileFingerprint(directory.Write("c", text + "x")) != whole);
  if (size == 0) return;
  // The first and the last byte, and one of each piece, are always seen.
  for (const size_t at :
       {size_t{0}, size - 1, static_cast<size_t>((size - std::min<size_t>(size, 4096)) * 31.0 / 63)}) {
    CAPTURE(at);
    std::string changed = text;
    changed[at] ^= 1;
    CHECK(*FileFingerprint(directory.Write("d", changed)) != whole);
  }
}

}  // namespace
}  // namespace medley
