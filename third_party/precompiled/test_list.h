// What most tests include.
#include <catch2/catch.hpp>

#include "third_party/precompiled/library_list.h"
