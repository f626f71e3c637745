#include "runtime/ir/plan/order_text.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

constexpr int kMaxNumber = 1'000'000;  // as many micro-batches as a route may have

char LetterOf(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return 'F';
    case Kind::kBackward:
      return 'B';
    case Kind::kInputGradient:
      return 'I';
    case Kind::kWeightGradient:
      return 'W';
    case Kind::kReceiveActivation:
    case Kind::kReceiveGradient:
      break;
  }
  return '?';
}

bool FromLetter(char letter, Kind& kind) {
  for (const Kind one : {Kind::kForward, Kind::kBackward, Kind::kInputGradient, Kind::kWeightGradient}) {
    if (LetterOf(one) != letter) continue;
    kind = one;
    return true;
  }
  return false;
}

bool FromDigits(absl::string_view text, int& number) {
  return !text.empty() && text.size() <= 7 && text[0] >= '0' && text[0] <= '9' &&
         absl::SimpleAtoi(text, &number) && number <= kMaxNumber;
}

// Adds the passes of one word. False: it is none.
bool AddWord(absl::string_view word, UnitOrder& order) {
  Kind kind = Kind::kForward;
  if (!FromLetter(word[0], kind)) return false;
  word.remove_prefix(1);
  int visit = 0;
  if (const size_t colon = word.find(':'); colon != absl::string_view::npos) {
    if (!FromDigits(word.substr(0, colon), visit)) return false;
    word.remove_prefix(colon + 1);
  }
  const size_t dash = word.find('-');
  int first = 0, last = 0;
  if (!FromDigits(word.substr(0, dash), first)) return false;
  last = first;
  if (dash != absl::string_view::npos && (!FromDigits(word.substr(dash + 1), last) || last <= first))
    return false;
  for (int m = first; m <= last && order.size() <= kMaxOrderPasses; ++m) order.push_back({kind, visit, m});
  return true;
}

}  // namespace

std::string FormatPass(const UnitOp& op) {
  std::string text(1, LetterOf(op.kind));
  if (op.visit > 0) absl::StrAppend(&text, op.visit, ":");
  absl::StrAppend(&text, op.micro_batch);
  return text;
}

std::string FormatOrder(const UnitOrder& order) {
  std::string text;
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && order[end] == UnitOp{order[i].kind, order[i].visit,
                                                      order[i].micro_batch + static_cast<int>(end - i)}) {
      ++end;
    }
    absl::StrAppend(&text, text.empty() ? "" : " ", FormatPass(order[i]));
    if (end - i > 1) absl::StrAppend(&text, "-", order[end - 1].micro_batch);
    i = end;
  }
  return text;
}

absl::StatusOr<UnitOrder> ParseOrder(absl::string_view text) {
  UnitOrder order;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
    if (!AddWord(word, order)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", word.substr(0, 40),
          "\" is no pass; one is a letter (F, B, I or W), a visit and a colon unless it is visit 0, "
          "and a micro-batch or an ascending range of them, both at most ",
          kMaxNumber, ": F0-3, I1:5"));
    }
    if (order.size() > kMaxOrderPasses)
      return absl::InvalidArgumentError(absl::StrCat("has more than ", kMaxOrderPasses, " passes"));
  }
  return order;
}

}  // namespace medley
