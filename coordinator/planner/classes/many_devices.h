#pragma once
#include <cstdint>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// A cluster for tests, from a seed: two or three kinds of unlike devices on hosts of two or four, each measured alone
// and with even shares, links fast within hosts and slower between them, times and messages comparable.
PlanningProblem ManyDevices(uint64_t seed, int devices);

// Alike devices that are hosts of their own; a layer takes a second forward and two backward, all else nothing.
PlanningProblem Alike(int devices, int layers, int batch);

// Twenty-four devices with the times of Alike's and a model of eight layers, `on_host` on each host: sixteen with as many cards a host, and
// eight with one. What a layer's parameters take in f32 takes four seconds between any two hosts, and nothing within.
PlanningProblem ManyCardsAndOne(int on_host, int batch);

// Alike devices of the same times on hosts of two, "h0/0", "h0/1", "h1/0", ..., and a model most of whose parameters are of
// layers. What room they have is up to the test.
PlanningProblem HostsOfTwo(int devices, int layers);

}  // namespace medley
