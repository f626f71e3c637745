// All jobs, newest first: state, progress, loss and throughput as they change.
import { JobList } from "./job_list.js";
import { repeat } from "./connection.js";
import { cell, element, headRow, meter, notice, setText } from "./dom.js";
import { agoText, countText, momentText, number } from "./format.js";
import { devicesOf, hasEnded, isWaiting, lossOf, stateBadge, stateText, stepOf, stepsOf, throughputOf } from "./job_facts.js";

const ROWS_AT_ONCE = 100; // more come as somebody scrolls to them
const COLUMNS = ["job", "state", "progress", "loss", "tokens/s", "devices", "submitted", "why"];
const NUMBERS = new Set(["loss", "tokens/s", "devices"]);
const KINDS = {
  all: () => true, active: (job) => !hasEnded(job) && !isWaiting(job), waiting: isWaiting, done: (job) => stateText(job) === "done",
  failed: (job) => stateText(job) === "failed", cancelled: (job) => stateText(job) === "cancelled",
};

function fill(row, job) {
  const step = stepOf(job), steps = stepsOf(job), submitted = number(job.submitted_at_seconds);
  const kept = row.querySelector("a"); // may have the focus
  const link = kept || element("a", { href: `#/jobs/${encodeURIComponent(job.id)}`, "data-row": true }, job.id);
  const cells = [
    cell("state", stateBadge(job)),
    cell("progress", step > 0 || !hasEnded(job) ? [element("span", { class: "line" },
      `${step.toLocaleString("en")} / ${steps.toLocaleString("en")}`),
      meter([[stateText(job) === "failed" ? "limit" : stateText(job) === "done" ? "good" : "accent", step]], steps)] : "", "progress"),
    cell("loss", lossOf(job), "number"), cell("tokens/s", throughputOf(job), "number"),
    cell("devices", `${devicesOf(job).length || ""}`, "number"),
    cell("submitted", element("time", { title: momentText(submitted, true) }, agoText(submitted)), "line"),
    cell("why", job.state_reason ? element("span", { title: job.state_reason }, job.state_reason) : "", "why"),
  ];
  if (!kept) row.append(element("td", { class: "name" }, link));
  row.replaceChildren(row.firstChild, ...cells);
}

// What of a job its row shows.
const shownOf = (job) => [job.state, job.held, job.state_reason, job.last_step, job.measured_step_seconds,
  devicesOf(job).length].map((part) =>
  JSON.stringify(part)).join();

class JobTable {
  constructor(signal) {
    this.rows = new Map(); // by id: {row, shown}
    this.most = ROWS_AT_ONCE;
    this.body = element("tbody");
    this.end = element("p", { class: "quiet" });
    this.element = element("div", { class: "scroll" }, element("table", { class: "jobs" }, headRow(COLUMNS, NUMBERS), this.body));
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting) || this.most >= (this.jobs || []).length) return;
      this.most += ROWS_AT_ONCE;
      this.show(this.jobs);
      watcher.unobserve(this.end); // who has scrolled to the new end before the next look is seen there anew
      watcher.observe(this.end);
    }, { rootMargin: "400px" });
    watcher.observe(this.end);
    signal.addEventListener("abort", () => watcher.disconnect());
  }

  show(jobs) {
    this.jobs = jobs;
    const shown = jobs.slice(0, this.most), ids = new Set(shown.map((job) => job.id));
    for (const [id, { row }] of this.rows)
      if (!ids.has(id)) {
        row.remove();
        this.rows.delete(id);
      }
    let before = null;
    for (const job of shown) {
      if (!this.rows.has(job.id)) this.rows.set(job.id, { row: element("tr"), shown: null });
      const known = this.rows.get(job.id), content = shownOf(job);
      if (known.shown !== content) fill(known.row, job);
      known.shown = content;
      setText(known.row.querySelector("time"), agoText(number(job.submitted_at_seconds)));
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== known.row) this.body.insertBefore(known.row, place);
      before = known.row;
    }
    setText(this.end, jobs.length > shown.length ? `${countText(jobs.length - shown.length, "more job", "more jobs")} below` : "");
  }
}

function chips(onChoice) {
  const buttons = Object.keys(KINDS).map((kind) => element("button", { type: "button", "aria-pressed": String(kind === "all"),
    click: () => {
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === buttons[Object.keys(KINDS).indexOf(kind)]));
    onChoice(kind);
  } }, kind));
  return { buttons, count(jobs) {
    Object.entries(KINDS).forEach(([kind, matches], i) => setText(buttons[i], `${kind} ${jobs.filter(matches).length}`));
  } };
}

export function show(parent, parameters, signal) {
  const list = new JobList(), table = new JobTable(signal);
  let kind = "all";
  const filter = element("input", { type: "search", placeholder: "Filter by name, state or reason", "aria-label": "Filter jobs",
    "data-filter": true,
    input: () => showAll() });
  const kinds = chips((choice) => { kind = choice; showAll(); });
  const empty = element("p", { class: "quiet", hidden: true }), trouble = element("div", { role: "alert" });
  parent.append(element("div", { class: "heading" }, element("h1", {}, "Jobs"),
    element("div", { class: "chips", role: "group", "aria-label": "States" }, ...kinds.buttons), filter), trouble, table.element, empty,
      table.end);

  function showAll() {
    const jobs = list.jobs(), text = filter.value.trim().toLowerCase();
    const matches = (job) => KINDS[kind](job) &&
      (text === "" || [job.id, stateText(job), job.state_reason || ""].some((part) => part.toLowerCase().includes(text)));
    const found = jobs.filter(matches);
    kinds.count(jobs);
    table.show(found);
    empty.hidden = found.length > 0 || !list.known;
    setText(empty, jobs.length === 0 ? "No job yet: submit one." : "No job is like that.");
    if (list.known && !performance.getEntriesByName("jobs-shown").length) performance.mark("jobs-shown");
  }
  repeat(2, signal, async () => {
    for await (const part of list.refresh(signal)) if (part) showAll();
    trouble.replaceChildren();
  }, (error) => trouble.replaceChildren(notice(error.message, "error")));
}
