#include "runtime/engine/events/tensorboard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/write_all.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// CRC-32C, as TFRecord has it.
uint32_t Checksum(const std::string& bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> made = {};
    for (uint32_t i = 0; i < made.size(); ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) made[i] = (made[i] >> 1) ^ ((made[i] & 1) != 0 ? 0x82f63b78u : 0u);
    }
    return made;
  }();
  uint32_t sum = ~0u;
  for (const char byte : bytes) sum = table[(sum ^ static_cast<uint8_t>(byte)) & 0xff] ^ (sum >> 8);
  return ~sum;
}

template <typename Number>
std::string LittleEndian(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

std::string MaskedChecksum(const std::string& bytes) {
  const uint32_t sum = Checksum(bytes);
  return LittleEndian(((sum >> 15) | (sum << 17)) + 0xa282ead8u);
}

// Protobuf's wire format. Wire types: 0 varint, 1 fixed64, 2 with a length, 5 fixed32.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Key(int field, int wire_type) { return Varint(static_cast<uint64_t>(field << 3 | wire_type)); }
std::string WithLength(int field, const std::string& bytes) {
  return absl::StrCat(Key(field, 2), Varint(bytes.size()), bytes);
}

// Event: wall_time 1, step 2, and one of file_version 3, summary 5, session_log 7.
std::string Event(double at_seconds, int64_t step, const std::string& what) {
  return absl::StrCat(Key(1, 1), LittleEndian(at_seconds), Key(2, 0), Varint(static_cast<uint64_t>(step)),
                      what);
}

// Summary: value 1, of which tag 1 and simple_value 2.
std::string Summary(const ScalarEvent& event) {
  std::string values;
  for (const auto& [name, value] : event.values) {
    absl::StrAppend(&values, WithLength(1, absl::StrCat(WithLength(1, name), Key(2, 5),
                                                        LittleEndian(static_cast<float>(value)))));
  }
  return WithLength(5, values);
}

absl::Status Failed(const std::string& path, int error_number) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(error_number)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorBoardWriter>> TensorBoardWriter::Open(const std::string& directory,
                                                                           int64_t done_steps,
                                                                           double now_seconds) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", directory, ": ", error.message()));
  // TensorBoard reads files in the order of their names.
  const std::string stem =
      absl::StrCat(directory, "/events.out.tfevents.", static_cast<int64_t>(now_seconds));
  std::string file;
  int descriptor = -1;
  for (int number = 0; descriptor < 0; ++number) {
    file = absl::StrCat(stem, ".", absl::Dec(number, absl::kZeroPad6), ".medley");
    descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor < 0 && errno != EEXIST) return Failed(file, errno);
  }
  std::unique_ptr<TensorBoardWriter> writer(new TensorBoardWriter(file, descriptor));
  RETURN_IF_ERROR(writer->WriteRecord(Event(now_seconds, 0, WithLength(3, "brain.Event:2"))));
  // SessionLog: status 1, START is 1: what is at this step and later is dropped.
  RETURN_IF_ERROR(writer->WriteRecord(
      Event(now_seconds, done_steps + 1, WithLength(7, absl::StrCat(Key(1, 0), Varint(1))))));
  return writer;
}

TensorBoardWriter::~TensorBoardWriter() { close(descriptor_); }

absl::Status TensorBoardWriter::Write(const ScalarEvent& event) {
  return WriteRecord(Event(event.at_seconds, event.step, Summary(event)));
}

absl::Status TensorBoardWriter::WriteRecord(const std::string& record) {
  const std::string length = LittleEndian(static_cast<uint64_t>(record.size()));
  const std::string frame = absl::StrCat(length, MaskedChecksum(length), record, MaskedChecksum(record));
  const int error = WriteAll(descriptor_, frame);
  return error == 0 ? absl::OkStatus() : Failed(file_, error);
}

}  // namespace medley
