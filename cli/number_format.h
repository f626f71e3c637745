#pragma once
#include <string>

// Figures as the commands show them.
namespace medley {

// "0.25 ms", "12.3 ms", "2.51 s". "-" for 0, which stands for unknown.
std::string FormatStepSeconds(double seconds);

// The time of one message: "0.32 us", "12.3 us", "1.25 ms", "2.51 s". "-" for 0.
std::string FormatLatency(double seconds);

// "7.6 GB/s", "480 MB/s", "12 kB/s": powers of 1000, as networks are sold. "-" for what is not a positive
// number.
std::string FormatBandwidth(double bytes_per_second);

// Rounded down: "7 s", "4 min 32 s", "3 h 05 min", "2 d 4 h".
std::string FormatDuration(double seconds);

// "2026-11-21 03:37:49", in UTC. "-" for 0.
std::string FormatTime(double unix_seconds);

// "912", "8.2k", "1.3M".
std::string FormatRate(double per_second);

// "312 GFLOP/s", "31.2 TFLOP/s".
std::string FormatFlops(double per_second);

// Of money, in whatever currency: "12600", "24.50", "0.0312".
std::string FormatAmount(double amount);

// How far `measured` is from `predicted`: "+4.2 %". Empty if either is 0.
std::string FormatDifference(double measured, double predicted);

// "5.3M", "124.4M", "1.5B".
std::string FormatParameters(double parameters);

}  // namespace medley
