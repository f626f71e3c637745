#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/device/candidate_ops.h"
#include "runtime/device/device.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"
#include "runtime/engine/align/tolerance.h"
#include "tests/conformance/exemptions.h"

namespace medley {

using Values = std::vector<float>;

// `count` values, normal with this deviation.
Values RandomValues(std::mt19937_64& random, int64_t count, float deviation = 1.0f);

// `count` integers in [0, end).
std::vector<int32_t> RandomIntegers(std::mt19937_64& random, int64_t count, int64_t end);

// Thrown by Arena::Run where the device declines an op as the list of exemptions says: nothing more to test.
struct Declined {};

// Tensors of one test on one device, whose memory only the queue can reach. Each lies inside a buffer of its
// own, at an offset that is no multiple of a vector, between guards that Check() finds unharmed.
class Arena {
 public:
  explicit Arena(Device& device);

  // Runs the op that `args` are of. Fails the test on an error, and on an op that the device declines or
  // leaves to the reference without being listed, or is listed without doing so (exemptions.h). Throws
  // Declined.
  template <typename Args>
  void Run(const Args& args) {
    if (IsNarrow(args)) return RequireOk(RunOp(*device_.ops, args));
    if (device_.candidates == nullptr) return Judge(KindOf(args), &args, RunOp(*device_.ops, args), {});
    CandidateOps::Choice choice;
    const absl::Status status = device_.candidates->SubmitAndTell(args, choice);
    Judge(KindOf(args), &args, status, choice);
  }

  Ops& ops() { return *device_.ops; }
  DeviceQueue& queue() { return *device_.queue; }

  // Rounded to `dtype`, which is an activation's.
  Slice Input(const Values& values, Dtype dtype = Dtype::kF32);
  Slice Input(const std::vector<int32_t>& values);
  Slice Input(const std::vector<uint16_t>& narrow, Dtype dtype = Dtype::kBf16);
  // Filled with NaN: who reads it, or leaves part of it unwritten, shows.
  Slice Output(int64_t count, Dtype dtype = Dtype::kF32);
  // One f64.
  Slice Scalar(double value);

  Values Read(const Slice& slice);
  double ReadScalar(const Slice& slice);
  // Each byte as a value, for comparing to the bit.
  Values ReadBytes(const Slice& slice, Dtype dtype);

  // Every guard is as it was, the queue has no error.
  void Check();

  // The list's entry about an op that ran and is expected to be wrong, or null.
  const Exemption* expected_failure() const { return expected_failure_; }

 private:
  Slice Place(const void* data, int64_t count, Dtype dtype);
  void Download(const Slice& from, void* to, int64_t bytes);
  // Such calls are for the device's ops alone, which turn them into calls of its candidates: all are taken.
  template <typename Args>
  static bool IsNarrow(Args args) {
    return KindOf(args) != OpKind::kCast && HasNarrow(SlicesOf(args));
  }
  static void RequireOk(const absl::Status& status);
  void Judge(OpKind op, const void* args, const absl::Status& status, const CandidateOps::Choice& choice);

  Device& device_;
  const std::string device_name_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  const Exemption* expected_failure_ = nullptr;
};

struct Result {
  std::string name;
  Values values;
  Arithmetic arithmetic;
  Dtype dtype = Dtype::kF32;  // as what they were stored
};

// Runs `work` on the reference and, if this machine has it, twice on the device under test: the device's
// results are right by the tolerance table, and the same to the bit both times.
void CompareWithReference(const std::function<std::vector<Result>(Arena&)>& work,
                          Precision precision = Precision::kF32);

// Runs `work` on the device under test alone, if this machine has it.
void OnDeviceUnderTest(const std::function<void(Arena&)>& work);

// Empty if `got` is right by the table, otherwise how many elements are wrong and the worst of them.
std::string Mismatch(const std::string& name, const Values& got, const Values& want, double tolerance);

// Fails the test unless `got` is right by the table.
void CheckClose(const std::string& name, const Values& got, const Values& want, double tolerance);

}  // namespace medley
