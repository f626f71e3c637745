#include "runtime/ir/collective/random_collective.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace medley {

int RandomBelow(Random& random, int bound) {
  return static_cast<int>(random() % static_cast<uint64_t>(bound));
}

GroupShape RandomShape(Random& random, int members) {
  GroupShape shape;
  if (RandomBelow(random, 3) > 0) {
    shape.order = OrderOf({}, members);
    std::shuffle(shape.order.begin(), shape.order.end(), random);
  }
  int parts = members;
  for (int levels = RandomBelow(random, 4); levels > 0; --levels) {
    std::vector<int>& sizes = shape.levels.emplace_back();
    for (int left = parts; left > 0; left -= sizes.back())
      sizes.push_back(1 + RandomBelow(random, std::min(left, 5)));
    parts = static_cast<int>(sizes.size());
  }
  if (RandomBelow(random, 2) == 0) {
    for (int i = 0; i < members; ++i) shape.shares.push_back(RandomBelow(random, 4) * 0.7);
  }
  return shape;
}

CollectiveChoice RandomChoice(Random& random, int members) {
  CollectiveChoice choice{static_cast<CollectiveAlgorithm>(RandomBelow(random, 4)),
                          RandomShape(random, members), 0};
  if (choice.algorithm != CollectiveAlgorithm::kHierarchical) choice.shape.levels.clear();
  return choice;
}

std::vector<float> RandomFloats(Random& random, int64_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    const uint64_t bits = random();
    const float mantissa = static_cast<float>(static_cast<int32_t>(bits >> 32)) * 0x1p-31f;
    value = std::ldexp(mantissa, static_cast<int>(bits % 12));
  }
  return values;
}

RandomProblem MakeRandomProblem(Random& random, int members, int64_t elements) {
  RandomProblem made;
  double rate = 1e10;
  for (int i = 0; i < 3; ++i) {
    const double latency = 1e-6 * (1 + RandomBelow(random, 50));
    made.kinds.push_back({LinkModel::Line(latency, 2 * rate), LinkModel::Line(2 * latency, rate)});
    rate /= 1 + RandomBelow(random, 8);
  }
  std::vector<int> site(members);
  for (int i = 0; i < members; ++i) {
    made.problem.host_of_member.push_back(RandomBelow(random, 6));
    site[i] = made.problem.host_of_member[i] % 2;
  }
  if (RandomBelow(random, 2) == 0) {
    std::map<int, int> cards;  // by host
    for (const int host : made.problem.host_of_member)
      made.problem.cards_of_member.push_back(cards.emplace(host, RandomBelow(random, 4)).first->second);
    if (RandomBelow(random, 2) == 0) made.problem.places_of_members = {site};
  }
  made.problem.members = members;
  made.problem.elements = elements;
  for (int a = 0; a < members; ++a) {
    for (int b = 0; b < members; ++b) {
      const bool host = made.problem.host_of_member[a] == made.problem.host_of_member[b];
      made.problem.links.push_back(a == b ? nullptr : &made.kinds[host ? 0 : site[a] == site[b] ? 1 : 2]);
    }
  }
  return made;
}

}  // namespace medley
