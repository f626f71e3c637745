#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "tests/conformance/tolerance.h"

namespace medley {

using Values = std::vector<float>;

// `count` values, normal with this deviation.
Values RandomValues(std::mt19937_64& random, int64_t count, float deviation = 1.0f);

// `count` integers in [0, end).
std::vector<int32_t> RandomIntegers(std::mt19937_64& random, int64_t count, int64_t end);

// Tensors of one test on one device. Each lies inside a buffer of its own, at an offset that is no multiple
// of a vector, between guards that Check() finds unharmed. Submission errors fail the test.
class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}

  Ops& ops() { return *device_.ops; }

  Slice Input(const Values& values);
  Slice Input(const std::vector<int32_t>& values);
  // Filled with NaN: who reads it, or leaves part of it unwritten, shows.
  Slice Output(int64_t count);
  // One f64.
  Slice Scalar(double value);

  Values Read(const Slice& slice);
  double ReadScalar(const Slice& slice);

  // Every guard is as it was, the queue has no error.
  void Check();

 private:
  Slice Place(const void* data, int64_t count, int64_t element_bytes);

  Device& device_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Slice> slices_;
  std::vector<int64_t> element_bytes_;
};

struct Result {
  std::string name;
  Values values;
  Arithmetic arithmetic;
};

// Runs `work` on the reference and, if this machine has it, twice on the device under test: the device's
// results are right by the tolerance table, and the same to the bit both times.
void CompareWithReference(const std::function<std::vector<Result>(Arena&)>& work,
                          Precision precision = Precision::kF32);

// Fails the test unless `got` is right by the table.
void CheckClose(const std::string& name, const Values& got, const Values& want, double tolerance);

}  // namespace medley
