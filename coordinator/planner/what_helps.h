#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/planner/planner.h"

namespace medley {

// Of more devices planning anew takes ten seconds and more each time: what twice the memory would bring is not tried.
constexpr size_t kMostPlannedAnew = 2048;

// What would make steps of `plan` shorter, the most first: links of one sort twice as fast, or hosts with twice the network cards, under
// the same plan; or twice the memory on one kind of device, planned anew. A sort of links is those between two sites, with the ways out
// of these that all of them share, or those between two kinds of device at one site, within a host or not. At most five, each of half a
// per cent and more. Takes a simulation for each sort of link and each kind, and, where memory is of use at all, planning for each kind
// (of up to kMostPlannedAnew devices). Once limits.stop is set: what has been found. Pure.
std::vector<Explanation::Help> WhatHelps(const PlanningProblem& problem, const Plan& plan,
                                         const SearchLimits& limits);

}  // namespace medley
