#pragma once
#include <set>
#include <string>
#include <vector>

#include "runtime/ir/cluster/device_profile.h"

// How far predictions of a kind were off when they could be checked: what a new one says of itself.
namespace medley {

// Relative: a prediction of 10 s with 0.1 says 9.1 to 11 s.
struct ErrorBar {
  double usual = 0;  // two of three predictions were off by at most that
  double wide = 0;   // nine of ten were
};

// What tests/perf/run.sh prediction found; its README says how to renew it.
ErrorBar LearntErrorBar(PredictionBasis basis);

// Of a step that real devices made.
struct LiveError {
  std::set<std::string> device_kinds;  // in use; empty: not known
  double error = 0;                    // predicted / measured - 1
};

// Those of `live`, from the oldest to the newest, that tell of a step of devices of these kinds: all of steps of just these, and
// while that are fewer than make up a bar, the newest of those that had one of them, or may have had.
std::vector<double> ErrorsThatTell(const std::vector<LiveError>& live,
                                   const std::set<std::string>& device_kinds);

// From `errors`, predicted / measured - 1, any order, none NaN. A few say little of what is rare: they are taken beside as
// many from `before`'s as make up ten.
ErrorBar ErrorBarOf(std::vector<double> errors, const ErrorBar& before);

}  // namespace medley
