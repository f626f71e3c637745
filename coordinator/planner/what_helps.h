#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/planner/planner.h"

namespace medley {

// Of more devices planning anew takes ten seconds and more each time: what twice the memory would bring is not tried.
constexpr size_t kMostPlannedAnew = 2048;

// What would make steps of `plan` shorter, the most first: links of one sort twice as fast, or hosts with twice the network cards, under
// the same plan; or twice the memory on one kind of device, planned anew. A sort of links is those between two sites, or between racks, with the
// ways out of these that all of them share, or those between two kinds of device at one site or in one rack, within a host or not. Of three to 16 hosts, and up to 256
// devices in use, also two hosts whose links alone bring half as much as all of their sort, or more: four pairs at most are tried, those
// between which the plan's messages and sums take longest. At most five, each of half a per cent and more. Takes a simulation for each
// sort of link, each kind and each such pair, a second one for pairs that are told, and, where memory is of use at all, planning for
// each kind (of up to kMostPlannedAnew devices). Once limits.stop is set: what has been found. Pure.
std::vector<Explanation::Help> WhatHelps(const PlanningProblem& problem, const Plan& plan,
                                         const SearchLimits& limits);

}  // namespace medley
