#pragma once
#include "runtime/ir/link/link_model.h"

namespace medley {

// What messages of links occupy their ends for at least, behind the latency: of b bytes, (b - level) / rate. A measured sum has no latency that
// is by itself and nothing that is level: all of its time is what its bytes take. Pure.
struct LinkRise {
  double level_bytes = 0;       // where a model begins to rise
  double bytes_per_second = 0;  // the greatest slope from there to any other point; 0: of no link
  void Cover(const LinkRise& other);
  void Cover(const LinkCost& link);  // of both models, and of what members get in measured sums
};

}  // namespace medley
