// Why a job has this plan: the reasons, and the best plans of other kinds.
import { get } from "./api.js";
import { repeat } from "./connection.js";
import { element, notice } from "./dom.js";
import { planReasons } from "./plan_reasons.js";

// The plan changes with launches alone, and the first comparison takes as long as planning.
export function showWhy(parent, { id }, signal) {
  const body = element("div"), trouble = element("div", { role: "status" });
  const page = element("a", { href: `plan/${encodeURIComponent(id)}`, target: "_blank", rel: "noopener" },
    "The predicted step with its memory, as a page of its own");
  parent.append(trouble, body, element("p", {}, page));
  let wanted = "", shown = "";
  trouble.replaceChildren(element("p", { class: "quiet" }, "Comparing with the best plans of other kinds …"));
  repeat(2, signal, async () => {
    if (wanted === shown) return;
    const asked = wanted, report = await get("GetPlan", { job_id: id }, signal);
    shown = asked;
    trouble.replaceChildren();
    body.replaceChildren(planReasons(report));
  }, (error) => {
    shown = wanted; // asked again when the job has another plan
    body.replaceChildren();
    trouble.replaceChildren(notice(error.message, "quiet"));
  });
  return (job) => { wanted = job.plan ? `${job.attempt || 0} ${job.plan.description}` : "none"; };
}
