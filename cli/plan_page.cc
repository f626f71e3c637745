#include "cli/plan_page.h"

#include "absl/strings/str_cat.h"
#include "cli/page_text.h"
#include "cli/plan_data.h"

namespace medley {

std::string PlanPage(const std::string& title, const v1::PlanReport& report) {
  return absl::StrCat(PageBeforeData(), ScriptText(PlanData(title, report)), PageAfterData());
}

}  // namespace medley
