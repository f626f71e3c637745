#include "runtime/wire/name_list.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kMostDigits = 18;  // what int64_t holds

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); });
}

int64_t ValueOf(const std::string& number) {
  int64_t value = 0;
  return absl::SimpleAtoi(number, &value) ? value : 0;
}

// With at least so many digits.
std::string Padded(int64_t value, size_t digits) {
  const std::string number = absl::StrCat(value);
  return std::string(digits - std::min(digits, number.size()), '0') + number;
}

// At the commas that are not in brackets.
std::vector<std::string> SplitItems(const std::string& text) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth <= 0) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

class Names {
 public:
  absl::Status Add(std::string name) {
    if (names_.size() == kMostListedNames)
      return Invalid("lists more than the ", kMostListedNames, " names that there may be");
    if (!known_.insert(name).second) return Invalid("\"", name, "\" is there twice");
    names_.push_back(std::move(name));
    return absl::OkStatus();
  }
  std::vector<std::string> Take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::set<std::string> known_;
};

// `range`: "7" or "001-064".
absl::Status AddRange(const std::string& prefix, const std::string& range, const std::string& suffix,
                      Names& names) {
  const std::vector<std::string> ends = absl::StrSplit(range, '-');
  if (ends.size() > 2 || !IsNumber(ends.front()) || !IsNumber(ends.back()))
    return Invalid("\"", range, "\" must be a whole number or a range of them, as in 7 or 001-064");
  const int64_t first = ValueOf(ends.front()), last = ValueOf(ends.back());
  if (last < first) return Invalid("\"", range, "\" ends before it begins");
  for (int64_t number = first; number <= last; ++number)
    RETURN_IF_ERROR(names.Add(absl::StrCat(prefix, Padded(number, ends.front().size()), suffix)));
  return absl::OkStatus();
}

// A name around a number: what is before and behind it. Of a name with a domain it is the last number before that, which nodes of one
// cluster have in common; in any case the last one where there is none.
struct NumberedName {
  std::string prefix, number, suffix;
};
NumberedName SplitNumber(const std::string& name) {
  const auto is_digit = [&](size_t i) { return absl::ascii_isdigit(name[i]); };
  for (const size_t limit : {std::min(name.find('.'), name.size()), name.size()}) {
    size_t end = limit;
    while (end > 0 && !is_digit(end - 1)) --end;
    size_t begin = end;
    while (begin > 0 && is_digit(begin - 1)) --begin;
    if (begin < end && end - begin <= kMostDigits)
      return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
  }
  return {name, "", ""};
}

// "001-064,070"; `numbers` ascend.
std::string WriteRanges(const std::vector<std::string>& numbers) {
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    const std::string& first = numbers[begin];
    int64_t next = ValueOf(first);
    while (end < numbers.size() && numbers[end] == Padded(next, first.size())) ++end, ++next;
    ranges.push_back(end - begin == 1 ? first : absl::StrCat(first, "-", numbers[end - 1]));
  }
  return absl::StrJoin(ranges, ",");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseNameList(const std::string& text) {
  Names names;
  for (const std::string& item : SplitItems(text)) {
    const size_t open = item.find('['), close = item.find(']');
    if (open == std::string::npos && close == std::string::npos) {
      RETURN_IF_ERROR(names.Add(item));
      continue;
    }
    if (open > close || close == std::string::npos || item.find_first_of("[]", open + 1) != close ||
        item.find_first_of("[]", close + 1) != std::string::npos) {
      return Invalid("\"", item, "\" must have one \"[\" and one \"]\" after it, as in n[001-064]");
    }
    for (const std::string& range :
         std::vector<std::string>(absl::StrSplit(item.substr(open + 1, close - open - 1), ',')))
      RETURN_IF_ERROR(AddRange(item.substr(0, open), range, item.substr(close + 1), names));
  }
  return names.Take();
}

std::string WriteNameList(const std::vector<std::string>& names) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> numbers;  // by what is around them
  std::vector<std::string> items;
  for (const std::string& name : names) {
    NumberedName split = SplitNumber(name);
    if (split.number.empty()) {
      items.push_back(name);
    } else {
      numbers[{std::move(split.prefix), std::move(split.suffix)}].push_back(std::move(split.number));
    }
  }
  for (auto& [around, its] : numbers) {
    const auto& [prefix, suffix] = around;
    // Of equal values, "7" and "007", the shorter goes first.
    std::sort(its.begin(), its.end(), [](const std::string& a, const std::string& b) {
      return std::pair(ValueOf(a), a.size()) < std::pair(ValueOf(b), b.size());
    });
    items.push_back(its.size() == 1 ? absl::StrCat(prefix, its.front(), suffix)
                                    : absl::StrCat(prefix, "[", WriteRanges(its), "]", suffix));
  }
  return absl::StrJoin(items, ",");
}

}  // namespace medley
