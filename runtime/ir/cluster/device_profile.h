#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"

// What was measured of a device kind for one model shape, and what running jobs taught of it since.
namespace medley {

struct PassTimes {
  double forward_seconds = 0;
  double backward_seconds = 0;         // both gradients
  double weight_gradient_seconds = 0;  // of those: what need not come before the stage before goes on
  // Of a layer, what it takes to make activations again before its backward: all, and all but attention's. 0: not known.
  double recompute_seconds = 0, recompute_but_attention_seconds = 0;
  double split_seconds = 0;  // that a backward takes more where its two gradients are passes of their own

  double Seconds() const { return forward_seconds + backward_seconds; }
  friend bool operator==(const PassTimes&, const PassTimes&) = default;
};

inline constexpr double PassTimes::*kAllPassTimes[] = {&PassTimes::forward_seconds,
                                                       &PassTimes::backward_seconds,
                                                       &PassTimes::weight_gradient_seconds,
                                                       &PassTimes::recompute_seconds,
                                                       &PassTimes::recompute_but_attention_seconds,
                                                       &PassTimes::split_seconds};

// The times of one block of each kind, for one micro-batch of a given size.
struct BlockTimes {
  PassTimes embedding, layer, head;
  friend bool operator==(const BlockTimes&, const BlockTimes&) = default;
};

struct ProfiledTimes {
  int micro_batch_sequences = 0;
  // Of gradients of weights the layer's alone is measured; 0: it was not, and is what its work suggests.
  BlockTimes blocks;
  Bytes
      workspace;  // that the ops hold with micro-batches of at most this size; 0: not known, and the profile's
  // Of the repeated measurements that these times are the middle of: half the distance between their
  // quartiles over their median, of the pass where it is widest. 0: not known.
  double spread = 0;
  // Why these times cannot be right although they were measured again, for people. Empty: nothing speaks
  // against them.
  std::string doubt;
  friend bool operator==(const ProfiledTimes&, const ProfiledTimes&) = default;
};

// Times of a profile that one factor corrects.
enum class TimeClass : uint8_t {
  kPasses,          // forwards and gradients
  kRecomputations,  // all activations of a layer, or all but attention's; until they have a factor, that of passes
  kUpdates,
  kNorms,
  kFetches,  // copies from host memory to the device
  kStores,   // and back
};
inline constexpr TimeClass kTimeClasses[] = {TimeClass::kPasses,  TimeClass::kRecomputations,
                                             TimeClass::kUpdates, TimeClass::kNorms,
                                             TimeClass::kFetches, TimeClass::kStores};
// For people: "passes".
std::string NameOf(TimeClass times);

// What running jobs taught: what was measured is to be multiplied by `factor`.
struct ProfileCorrection {
  double factor = 1;
  int steps = 0;          // that it was learnt from
  std::string job_id;     // whose they were
  double at_seconds = 0;  // unix
  friend bool operator==(const ProfileCorrection&, const ProfileCorrection&) = default;
};

using ProfileCorrections = std::map<TimeClass, ProfileCorrection>;

// By which times of a class are to be multiplied; 1 if nothing was taught.
double FactorOf(const ProfileCorrections& corrections, TimeClass times);

// What a device was measured on and with. Empty: not known.
struct Provenance {
  std::string device;                  // "node/device"
  std::string host;                    // the machine's name
  std::string hardware;                // "Intel(R) Xeon(R) Processor @ 2.50GHz"
  std::string driver;                  // with its version
  std::vector<std::string> libraries;  // with their versions: "oneDNN 2.6.3"
  std::string medley_version;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

// What the times of a profile, and what is predicted by them, rest on; the later, the less sure.
enum class PredictionBasis : uint8_t {
  kMeasuredLayers,  // this kind and this shape were measured
  kOtherShapes,     // this kind was measured with other shapes: roofline with its coefficients
  kOtherKinds,  // a data sheet, with the coefficients of another kind, or of operands of another precision
};
inline constexpr int kPredictionBases = 3;

struct DeviceProfile {
  std::string device_kind, shape;    // what it is found under
  std::vector<ProfiledTimes> times;  // by micro-batch size
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  Bytes workspace;  // that the ops hold beside what the memory model counts, with any size
  double copy_bytes_per_parameter = 0;  // copies that the ops keep, of each that products multiply by
  // Of copies from host memory to the device while it does nothing else, and back; 0: not measured.
  double fetch_bytes_per_second = 0, store_bytes_per_second = 0;
  // Whether its memory is its own, out of the host's reach, and the library by which devices of its kind exchange such
  // memory, with its version; empty: none. Found with the rates of copies.
  bool has_own_memory = false;
  std::string group_library;
  double measured_at_seconds = 0;           // unix
  std::string provenance;                   // for people; of a measured profile, `measured_with` in a line
  std::optional<Provenance> measured_with;  // none: a profile from elsewhere
  ProfileCorrections corrections;           // of what running jobs have said otherwise
  // Devices of the kind, "node/device", whose passes take so many times as long as those of the others of it, over all
  // corrections.
  std::map<std::string, ProfileCorrection> devices;
  PredictionBasis basis = PredictionBasis::kMeasuredLayers;
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

// Whether it has times of a class to correct.
bool Has(const DeviceProfile& profile, TimeClass times);

}  // namespace medley
