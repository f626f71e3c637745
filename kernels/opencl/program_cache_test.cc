#include "kernels/opencl/program_cache.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "kernels/opencl/opencl_program.h"
#include "runtime/base/files/temporary_directory.h"
#include "tests/skipped.h"

namespace medley {
namespace {

const std::vector<uint8_t> kProgram = {0, 1, 2, 250, 251};

TEST_CASE("a program is found again under its key, and under no other") {
  const TemporaryDirectory directory;
  const ProgramCache cache(directory.path() + "/a/b");
  CHECK(!cache.Load("device 1").has_value());
  cache.Store("device 1", kProgram);
  cache.Store("device 2", {9});
  CHECK(cache.Load("device 1") == kProgram);
  CHECK(cache.Load("device 2") == std::vector<uint8_t>{9});
  CHECK(!cache.Load("device 3").has_value());
  cache.Store("device 1", {5});
  CHECK(ProgramCache(directory.path() + "/a/b").Load("device 1") == std::vector<uint8_t>{5});
}

TEST_CASE("an entry with any byte changed, cut anywhere or put under another key is as none") {
  const TemporaryDirectory directory;
  const ProgramCache cache(directory.path());
  cache.Store("key", kProgram);
  const std::string path = cache.PathOf("key");
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  for (size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    write(changed);
    CHECK(!cache.Load("key").has_value());
    write(whole.substr(0, i));
    CHECK(!cache.Load("key").has_value());
  }
  write(whole);
  CHECK(cache.Load("key") == kProgram);
  std::filesystem::copy(path, cache.PathOf("other"));
  CHECK(!cache.Load("other").has_value());
}

TEST_CASE("a cache without a folder, or with one that cannot be, keeps nothing and harms nothing") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/file") << "not a folder";
  for (const std::string& folder : {std::string(), directory.path() + "/file"}) {
    const ProgramCache cache(folder);
    cache.Store("key", kProgram);
    CHECK(!cache.Load("key").has_value());
  }
}

TEST_CASE("the default folder follows XDG_CACHE_HOME, then HOME") {
  setenv("HOME", "/home/somebody", 1);
  unsetenv("XDG_CACHE_HOME");
  CHECK(ProgramCache::DefaultFolder() == "/home/somebody/.cache/medley/opencl");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  CHECK(ProgramCache::DefaultFolder() == "/cache/medley/opencl");
}

TEST_CASE(
    "a program is compiled once, taken from the cache then, and compiled anew if the driver refuses the "
    "entry") {
  const auto opencl = LoadOpenCl();
  const std::vector<OpenClDevice> devices =
      opencl.ok() ? ListOpenClDevices(**opencl) : std::vector<OpenClDevice>{};
  if (devices.empty()) {
    PartlySkipped("programs of a driver", "there is no OpenCL device here");
    return;
  }
  OpenClDevice device = devices[0];
  device.driver_keeps_programs = false;
  const auto queue = OpenClQueue::Create(**opencl, device, MiB(1));
  REQUIRE(queue.ok());
  const TemporaryDirectory directory;
  const ProgramCache cache(directory.path());
  const std::string source = "__kernel void nothing(__global float* x) { x[get_global_id(0)] = 0; }";
  const auto build = [&](const std::string& text) {
    const auto built = BuildOpenClProgram(**queue, text, cache);
    REQUIRE(built.ok());
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = (*opencl)->clCreateKernel(built->program, "nothing", &code);
    CHECK(code == CL_SUCCESS);
    (*opencl)->clReleaseKernel(kernel);
    (*opencl)->clReleaseProgram(built->program);
    return built->origin;
  };
  CHECK(build(source) == ProgramOrigin::kSource);
  CHECK(build(source) == ProgramOrigin::kCache);
  CHECK(build(source + "\n") == ProgramOrigin::kSource);
  cache.Store(OpenClProgramKey(device, source), {'d', 'a', 'm', 'a', 'g', 'e', 'd'});
  CHECK(build(source) == ProgramOrigin::kSource);
  CHECK(build(source) == ProgramOrigin::kCache);
  const auto wrong = BuildOpenClProgram(**queue, "__kernel void nothing( {", cache);
  CHECK(absl::IsInternal(wrong.status()));
}

}  // namespace
}  // namespace medley
