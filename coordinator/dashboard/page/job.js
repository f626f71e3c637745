// One job: its figures and actions above, and one of five views below.
import { jobActions } from "./actions.js";
import { onConnection } from "./connection.js";
import { element, figures, notice, setText } from "./dom.js";
import { countText, differenceText, durationText, lossText, momentText, number, parametersText, secondsText } from "./format.js";
import { batchText, devicesOf, hasEnded, lossOf, modelText, secondsLeft, stateBadge, stepOf, stepSeconds, stepsOf,
  throughputOf } from "./job_facts.js";
import { JobWatch } from "./job_watch.js";
import { showLogs } from "./logs.js";
import { showOverview } from "./overview.js";
import { showSpec } from "./spec.js";
import { showTimeline } from "./timeline.js";
import { showWhy } from "./why.js";

// Each has (parent, {id, watch}, signal) and answers with a function to be called when the job changed.
const TABS = { overview: showOverview, timeline: showTimeline, why: showWhy, logs: showLogs, spec: showSpec };
const FIGURES = ["step", "loss", "validation", "tokens/s", "step takes", "predicted", "off by", "to go", "restarts", "checkpoint"];

function figuresOf(job) {
  const validation = job.last_validation || {}, predicted = number((job.plan || {}).predicted_step_seconds), took = stepSeconds(job);
  const restarts = number(job.restarts), most = (job.spec || {}).max_restarts;
  return [
    `${stepOf(job).toLocaleString("en")} / ${stepsOf(job).toLocaleString("en")}`, lossOf(job),
    number(validation.step) > 0 ? lossText(number(validation.loss)) : "", throughputOf(job), took > 0 ? secondsText(took) : "",
    predicted > 0 ? secondsText(predicted) : "", predicted > 0 && took > 0 ? differenceText(predicted, took) : "",
    durationText(secondsLeft(job)), restarts > 0 ? `${restarts} of ${most === undefined ? 3 : most}` : "",
    number(job.checkpoint_step) > 0 ? `step ${number(job.checkpoint_step).toLocaleString("en")}` : "",
  ];
}

function factsText(job) {
  const spec = job.spec || {}, ended = number(job.ended_at_seconds), started = number(job.started_at_seconds);
  const parameters = number(job.parameters);
  return [modelText(spec), parameters > 0 ? `${parametersText(parameters)} parameters` : "", batchText(spec),
    devicesOf(job).length > 0 ? countText(devicesOf(job).length, "device", "devices") : "",
      `submitted ${momentText(number(job.submitted_at_seconds))}`,
    started > 0 ? `started ${momentText(started)}` : "",
    ended > 0 ? `ended ${momentText(ended)}${started > 0 ? `, after ${durationText(ended - started)}` : ""}`
      : ""].filter(Boolean).join(" · ");
}

function tabBar(id) {
  const links = Object.keys(TABS).map((name) =>
    element("a", { href: `#/jobs/${encodeURIComponent(id)}${name === "overview" ? "" : `/${name}`}`, "data-tab": name }, name));
  return { element: element("nav", { class: "tabs", "aria-label": "Of this job" }, ...links), mark(shown) {
    for (const link of links) {
      if (link.dataset.tab === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  } };
}

export function show(parent, [id, firstTab], signal) {
  const badge = element("span"), facts = element("p", { class: "quiet" }), reason = element("p", { class: "reason" });
  const trouble = element("div"), problem = element("p", { class: "warning", hidden: true }), body = element("section", { id: "tab" });
  const numbers = figures(FIGURES), tabs = tabBar(id);
  const watch = new JobWatch(id, signal, changed, (error) => trouble.replaceChildren(notice(error.message, "error")));
  const actions = jobActions(id, watch);
  parent.append(element("div", { class: "heading" }, element("h1", {}, id), badge, actions.element), trouble, reason, facts, problem,
    numbers.element, tabs.element, body);
  let tab = null; // {name, ending, changed}

  function changed() {
    const { job } = watch;
    if (!job) return;
    trouble.replaceChildren();
    badge.replaceChildren(stateBadge(job));
    setText(reason, job.state_reason || "");
    reason.hidden = !job.state_reason;
    reason.className = hasEnded(job) && job.state_reason ? "reason ended" : "reason";
    setText(facts, factsText(job));
    numbers.update(figuresOf(job));
    setText(problem, job.checkpoint_problem ? `The newest checkpoint could not be written: ${job.checkpoint_problem}` : "");
    problem.hidden = !job.checkpoint_problem;
    actions.update(job);
    if (tab && tab.changed) tab.changed(job);
  }

  function open(name) {
    const known = TABS[name] ? name : "overview";
    if (tab && tab.name === known) return;
    if (tab) tab.ending.abort();
    const ending = new AbortController();
    body.replaceChildren();
    body.className = known;
    tabs.mark(known);
    tab = { name: known, ending, changed: null };
    tab.changed = TABS[known](body, { id, watch }, AbortSignal.any([signal, ending.signal]));
    changed();
  }
  signal.addEventListener("abort", () => tab && tab.ending.abort());
  onConnection(changed, signal); // rights may be others
  open(firstTab || "overview");
  return ([, name]) => open(name || "overview");
}
