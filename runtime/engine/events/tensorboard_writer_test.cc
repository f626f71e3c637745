#include "runtime/engine/events/tensorboard_writer.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

// Bit by bit, from the polynomial: shares nothing with the table.
uint32_t SlowChecksum(const std::string& bytes) {
  uint32_t sum = 0xffffffff;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = ((sum ^ (static_cast<uint8_t>(byte) >> bit)) & 1) != 0;
      sum = (sum >> 1) ^ (carry ? 0x82f63b78 : 0);
    }
  }
  return ~sum;
}

template <typename Number>
Number At(const std::string& bytes, size_t place) {
  Number number;
  std::memcpy(&number, bytes.data() + place, sizeof(number));
  return number;
}

uint32_t Masked(uint32_t sum) { return ((sum >> 15) | (sum << 17)) + 0xa282ead8; }

std::vector<std::string> RecordsOf(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  const std::string bytes = all.str();
  std::vector<std::string> records;
  for (size_t place = 0; place < bytes.size();) {
    const auto length = At<uint64_t>(bytes, place);
    CHECK(At<uint32_t>(bytes, place + 8) == Masked(SlowChecksum(bytes.substr(place, 8))));
    records.push_back(bytes.substr(place + 12, length));
    CHECK(At<uint32_t>(bytes, place + 12 + length) == Masked(SlowChecksum(records.back())));
    place += 16 + length;
  }
  return records;
}

TEST_CASE("the checksum of the reader is that of RFC 3720") {
  CHECK(SlowChecksum("123456789") == 0xe3069283);
}

TEST_CASE("a file of events is as TensorBoard reads it, byte by byte") {
  const TemporaryDirectory directory;
  const auto writer = TensorBoardWriter::Open(directory.File("new/gpt-1"), 300, 1.5);
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Write({.step = 301, .at_seconds = 2.5, .values = {{"loss", 0.5}, {"a", 1}}}).ok());
  const std::vector<std::string> records = RecordsOf((*writer)->file());
  REQUIRE(records.size() == 3);
  using namespace std::string_literals;
  const std::string first = "\x09\0\0\0\0\0\0\xf8\x3f"s, then = "\x09\0\0\0\0\0\0\x04\x40"s;
  CHECK(records[0] == first + "\x10\0\x1a\x0d"s + "brain.Event:2");
  CHECK(records[1] == first + "\x10\xad\x02\x3a\x02\x08\x01"s);
  CHECK(records[2] == then + "\x10\xad\x02\x2a\x17"s + "\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f"s +
                          "\x0a\x08\x0a\x01"s + "a\x15\0\0\x80\x3f"s);
}

TEST_CASE("each attempt has a file of its own, in their order; where none can be it says why") {
  const TemporaryDirectory directory;
  const auto one = TensorBoardWriter::Open(directory.path(), 0, 7),
             two = TensorBoardWriter::Open(directory.path(), 0, 7);
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK((*one)->file() < (*two)->file());
  std::ofstream(directory.File("file")) << "no folder";
  const absl::Status refused = TensorBoardWriter::Open(directory.File("file/below"), 0, 7).status();
  CHECK(absl::IsUnavailable(refused));
  CHECK(refused.message().find(directory.File("file/below")) != std::string::npos);
}

}  // namespace
}  // namespace medley
