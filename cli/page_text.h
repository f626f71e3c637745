#pragma once
#include "absl/strings/string_view.h"

// The page as it is for every plan, of the files in page/ (BUILD.bazel): between the two goes the data, as
// the text of a <script> element.
namespace medley {

absl::string_view PageBeforeData();
absl::string_view PageAfterData();

}  // namespace medley
