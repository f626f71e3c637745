// A PlanReport in words: of a job's plan, and of a dry run.
import { cell, element, headRow, meter, notice, words } from "./dom.js";
import { countText, durationText, enumWord, momentText, number, percentText, secondsText, tokensText } from "./format.js";

function qualityText(report) {
  if (report.pinned) return "the job's spec names this plan";
  const step = number(report.predicted_step_seconds), bound = number(report.lower_bound_seconds);
  if (report.proven_optimal) return "proven optimal";
  return bound > 0 && step > bound ? `at most ${percentText(step / bound - 1, 1)} from the best${report.bound_under_1f1b_alone ? " under 1f1b" : ""}` : "";
}

// Of one kind the devices say it all.
const kindsText = (kinds) => kinds.length < 2 ? "" : kinds.map((kind) => `${kind.kind}: ${number(kind.used)} of ${number(kind.devices)} in use`
  + (number(kind.used) === 0 ? "" : `, ${percentText(number(kind.work_share))} of the work, busy ${percentText(number(kind.busy_share))} of the time, `
    + `at most ${percentText(number(kind.memory_share))} of the memory`)).join("; ");

const helpsText = (report) => (report.helpful_changes || []).map((help) => {
  const seconds = number(help.predicted_step_seconds);
  return `${help.change}: ${secondsText(seconds)} a step, ${percentText(1 - seconds / number(report.predicted_step_seconds), 1)} less`
    + (help.planned_anew ? ", with another plan" : "");
}).join("; ");

function reasonsOf(report) {
  const bound = number(report.lower_bound_seconds), simulated = number(report.simulated_plans);
  const which = report.bound_under_1f1b_alone ? "under 1f1b"
    : report.plan?.schedule === "SCHEDULE_LISTED" ? "in any order" : "with a named schedule";
  const proof = [qualityText(report),
    bound > 0 ? `no plan ${which} is predicted to be faster than ${secondsText(bound)} a step` : "",
    simulated > 0 ? `${countText(simulated, "plan was", "plans were")} simulated` : ""].filter(Boolean).join("; ");
  return [["Plan", report.description], ["Bottleneck", report.bottleneck],
    ["Bubble", `${percentText(number(report.bubble_share), 1)} of the time of the devices in use`],
    ["Proof", proof], ["Fitting", report.fitting], ["Order", report.orders], ["Sums", report.reductions], ["Exchanges", report.exchanges],
    ["Messages", report.messages], ["Kinds", kindsText(report.kinds || [])], ["Would help", helpsText(report)]]
    .filter(([, text]) => text);
}

function insteadTable(report) {
  const own = number(report.predicted_step_seconds), others = report.rejected || [];
  const longest = Math.min(4 * own, Math.max(own, ...others.map((other) => number(other.predicted_step_seconds))));
  const row = (kind, seconds, description, why, color) => element("tr", {}, cell("plan", kind),
    cell("step", seconds > 0 ? element("div", { class: "line" },
      `${secondsText(seconds)}${seconds === own ? "" : ` (× ${(seconds / own).toFixed(2)})`}`,
      meter([[color, seconds]], longest)) : "none fits"),
    cell("how", seconds > 0 ? words(description || "") : "", "words"), cell("why not", words(why || ""), "words"));
  return element("table", {}, headRow(["plan", "step", "how", "why not"]), element("tbody", {},
    row("this one", own, report.description, "", "accent"),
    ...others.map((other) => row(other.kind, number(other.predicted_step_seconds), other.description, other.why_slower, "send"))));
}

function profileItem(use) {
  const measured = number(use.measured_at_seconds), spread = number(use.spread);
  const facts = [use.share, measured > 0 ? `measured ${momentText(measured, true)}` : "", use.provenance,
    spread > 0 ? `spread ${percentText(spread, 1)}` : "",
    use.correction].filter(Boolean);
  const doubts = [...new Set(use.doubts || [])];
  return element("li", {}, element("strong", {}, use.device_kind), ` ${facts.join("; ")}`,
    doubts.length > 0 ? element("p", { class: "warning" }, `Doubtful: ${doubts.join("; ")}`) : null);
}

const section = (title, ...content) => element("section", {}, element("h2", {}, title), ...content);

export function planReasons(report) {
  const compared = report.compared || (report.rejected || []).length > 0;
  const objective = enumWord(report.objective, "OBJECTIVE_"), price = number(report.price_per_hour), seconds = number(report.job_seconds);
  const head = [`${secondsText(number(report.predicted_step_seconds))} a step`,
    `${tokensText(number(report.predicted_tokens_per_second))} tokens/s`,
    seconds > 0 ? `${durationText(seconds)} for ${number(report.job_steps).toLocaleString("en")} steps` : "",
    price > 0 ? `${price.toFixed(2)} an hour, ${number(report.job_cost).toFixed(2)} in all` : "",
      objective === "cost" ? "chosen for the least cost" : ""];
  return element("div", {},
    report.emulated ? notice("Some of these devices are emulated: nothing that the job computes means anything.") : null,
    section("Why this plan", element("p", { class: "lead" }, `Predicted: ${head.filter(Boolean).join(" · ")}`),
      element("dl", { class: "why" }, ...reasonsOf(report).flatMap(([name, text]) => [element("dt", {}, name),
        element("dd", {}, words(text))]))),
    section("Instead", compared ? element("div", { class: "scroll" }, insteadTable(report))
      : element("p", { class: "quiet" }, "The plan was not held against the best plans of other kinds.")),
    (report.profiles || []).length > 0 ? section("Predicted from", element("ul", {}, ...report.profiles.map(profileItem))) : null,
    report.explanation ? element("details", {}, element("summary", {}, "All of the explanation as text"), element("pre", { tabindex: 0 },
      report.explanation)) : null);
}
