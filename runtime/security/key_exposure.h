#pragma once
#include <string>

namespace medley {

// What to tell of a private key that more can read than should, as ssh does: for people, with how to mend it; `field`: where it is named.
// Empty: nothing; also of a file that is not there. A group may read a key that is another's or root's, which is how services get theirs.
std::string KeyExposure(const std::string& field, const std::string& file);

}  // namespace medley
