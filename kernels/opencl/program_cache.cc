#include "kernels/opencl/program_cache.h"

#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// Before the program: this, the key's hash and the program's.
constexpr char kMagic[8] = {'M', 'E', 'D', 'L', 'E', 'Y', 'C', '1'};
struct Header {
  char magic[8];
  uint64_t key_hash, program_hash;
};

Header HeaderOf(absl::string_view key, const uint8_t* program, size_t size_bytes) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.key_hash = XXH3_64bits_withSeed(key.data(), key.size(), 1);  // not the seed of the file's name
  header.program_hash = XXH3_64bits(program, size_bytes);
  return header;
}

}  // namespace

std::string ProgramCache::DefaultFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return absl::StrCat(cache, "/medley/opencl");
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : absl::StrCat(home, "/.cache/medley/opencl");
}

std::string ProgramCache::PathOf(absl::string_view key) const {
  return absl::StrCat(folder_, "/", absl::Hex(XXH3_64bits(key.data(), key.size()), absl::kZeroPad16),
                      ".program");
}

std::optional<std::vector<uint8_t>> ProgramCache::Load(absl::string_view key) const {
  std::ifstream file(PathOf(key), std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.size() <= sizeof(Header)) return std::nullopt;
  const Header expected = HeaderOf(key, bytes.data() + sizeof(Header), bytes.size() - sizeof(Header));
  if (std::memcmp(bytes.data(), &expected, sizeof(Header)) != 0) return std::nullopt;
  bytes.erase(bytes.begin(), bytes.begin() + sizeof(Header));
  return bytes;
}

void ProgramCache::Store(absl::string_view key, const std::vector<uint8_t>& program) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string path = PathOf(key), fresh = absl::StrCat(path, ".", getpid());
  const Header header = HeaderOf(key, program.data(), program.size());
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(reinterpret_cast<const char*>(program.data()), static_cast<std::streamsize>(program.size()));
    file.close();
    if (file.fail()) {
      std::filesystem::remove(fresh, error);
      return;
    }
  }
  std::filesystem::rename(fresh, path, error);
  if (error) std::filesystem::remove(fresh, error);
}

}  // namespace medley
