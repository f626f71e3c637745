#pragma once
#include <array>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/link/link_model.h"

// What is known of a device kind that nobody here owns: its data sheet, and a few coefficients that say how much of
// it software gets.
namespace medley {

// A data sheet.
struct DeviceFigures {
  std::string kind;                        // "A100-80"
  double matmul_flops_per_second = 0;      // of 16-bit operands, dense
  double matmul_f32_flops_per_second = 0;  // of 32 bits, all of which count; 0: not known
  double memory_bytes_per_second = 0;      // of its own memory
  double node_link_bytes_per_second = 0;   // to the other devices of its node together, one way
  double host_link_bytes_per_second = 0;   // to and from its host's memory, each way; 0: not known
  Bytes memory;
  ComputedPrecisions computes;
  // Measured sums over devices of a node, which then take these times and no share of node_link_bytes_per_second. No data sheet has any.
  std::vector<AllReduceTimes> all_reduce;
};

// How much of its figures a kind gets with one software. All are positive.
struct Calibration {
  double matmul_share = 0.75;       // of matmul_flops_per_second, for products of large matrices
  double matmul_half_size = 100;    // of the smallest dimension of a product that gets half of that
  double attention_share = 0.4;     // of matmul_flops_per_second, within attention
  double memory_share = 0.8;        // of memory_bytes_per_second
  double operation_seconds = 5e-6;  // each operation on the device, beside its work
  double host_layer_seconds =
      3e-4;                        // that the host needs to submit a layer's forward; the device waits for it
  double host_backward_ratio = 2;  // of that, for a backward that makes nothing again
  double host_peer_share = 0.05;   // by which that grows with every further rank that exchanges
  double exchange_share = 0.7;     // of node_link_bytes_per_second, in sums between ranks of a unit
  double exchange_seconds = 2e-5;  // each such sum, beside its work
  double message_share = 0.5;      // of the network, for activations between stages
  double message_seconds = 3e-5;   // each of those, beside its work
  double gradient_share = 0.8;     // of the network or the node's links, in sums between replicas
  double update_share = 0.7;       // of memory_bytes_per_second, in the optimizer
  double step_seconds = 2e-3;      // of each step, whatever the work
  // Of memory.
  double state_bytes_per_parameter = 18;  // weights, gradients, f32 copies and both moments of Adam
  double kept_factor = 1;                 // of what a count of activations says
  double reserved_bytes = 5e8;            // that the driver and communication libraries hold
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// One of them, and how far it is known before anything is measured.
struct Coefficient {
  const char* name;
  double Calibration::*value;
  double spread;  // of its natural logarithm, about the default
};

inline constexpr std::array kCoefficients = {
    Coefficient{"matmul_share", &Calibration::matmul_share, 0.2},
    Coefficient{"matmul_half_size", &Calibration::matmul_half_size, 0.3},
    Coefficient{"attention_share", &Calibration::attention_share, 0.3},
    Coefficient{"memory_share", &Calibration::memory_share, 0.2},
    Coefficient{"operation_seconds", &Calibration::operation_seconds, 0.7},
    Coefficient{"host_layer_seconds", &Calibration::host_layer_seconds, 0.7},
    Coefficient{"host_backward_ratio", &Calibration::host_backward_ratio, 0.3},
    Coefficient{"host_peer_share", &Calibration::host_peer_share, 0.5},
    Coefficient{"exchange_share", &Calibration::exchange_share, 0.3},
    Coefficient{"exchange_seconds", &Calibration::exchange_seconds, 0.7},
    Coefficient{"message_share", &Calibration::message_share, 0.5},
    Coefficient{"message_seconds", &Calibration::message_seconds, 1.0},
    Coefficient{"gradient_share", &Calibration::gradient_share, 0.4},
    Coefficient{"update_share", &Calibration::update_share, 0.4},
    Coefficient{"step_seconds", &Calibration::step_seconds, 0.5},
    Coefficient{"state_bytes_per_parameter", &Calibration::state_bytes_per_parameter, 0.1},
    Coefficient{"kept_factor", &Calibration::kept_factor, 0.1},
    Coefficient{"reserved_bytes", &Calibration::reserved_bytes, 1.5},
};

}  // namespace medley
