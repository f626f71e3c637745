// A job's spec: what would be done with it, and off it goes.
import { callYaml, Unreachable } from "./api.js";
import { may, onConnection, rights } from "./connection.js";
import { deviceTable } from "./devices.js";
import { say } from "./dialog.js";
import { element, notice } from "./dom.js";
import { planReasons } from "./plan_reasons.js";

const DRAFT = "medley.draft";
const EXAMPLE = `name: bible
model: {gpt2: {layers: 4, hidden: 256, heads: 8}}     # or: llama: {...}, or: hugging_face: /models/llama
data: {train: /data/train.txt, format: text, order: shuffled}
batch: {sequences: 8, sequence_length: 256}
steps: 300
optimizer: {learning_rate: 1e-3, warmup_steps: 20}
`;

// The request whose spec is this YAML. A document's opening line is none of it.
function requestYaml(spec, fields = []) {
  const lines = spec.replace(/\r\n?/g, "\n").replace(/^---[ \t]*\n/, "").replace(/\t/g, "  ").split("\n");
  return [...fields, "spec:", ...lines.map((line) => `  ${line}`)].join("\n").concat("\n");
}

function kept() {
  try {
    return sessionStorage.getItem(DRAFT) || "";
  } catch {
    return "";
  }
}
export function keepDraft(text) {
  try {
    sessionStorage.setItem(DRAFT, text);
  } catch {
    // It holds until the page is closed.
  }
}

function report(plan) {
  const devices = deviceTable();
  devices.update(plan);
  return [element("h2", {}, "Dry run: nothing was started"), planReasons(plan), devices.element];
}

export function show(parent, parameters, signal) {
  const text = element("textarea", { rows: 18, spellcheck: "false", autocapitalize: "off", autocomplete: "off",
    "aria-label": "Job spec, YAML", placeholder: EXAMPLE,
    input: () => { keepDraft(text.value); requestId = null; } });
  const result = element("section", { "aria-live": "polite" }), status = element("span", { class: "quiet", role: "status" });
  const plan = element("button", { type: "button", click: () => dryRun() }, "Dry run");
  const submit = element("button", { type: "button", class: "main", click: () => send() }, "Submit");
  const example = element("button", { type: "button", click: () => {
    if (text.value.trim() === "") text.value = EXAMPLE;
    keepDraft(text.value);
    text.focus();
  } }, "Example");
  let requestId = null; // kept while the spec is the same: a submission that is repeated is the same job
  text.value = kept();
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) dryRun();
  });
  const denied = element("p", { class: "warning", hidden: true }, "Your role does not allow to submit jobs.");
  parent.append(element("div", { class: "heading" }, element("h1", {}, "Submit a job")), denied, text,
    element("div", { class: "toolbar" }, plan, submit, example, status,
      element("span", { class: "quiet" }, "Ctrl Enter: dry run. Sizes may be written 512MiB.")), result);

  async function attempt(waiting, work) {
    plan.disabled = submit.disabled = true;
    status.textContent = waiting;
    result.replaceChildren();
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      result.replaceChildren(notice(error instanceof Unreachable ? `${error.message}. Try again: a job that was accepted is not made twice.`
        : error.message, "error"));
    }
    status.textContent = "";
    plan.disabled = submit.disabled = false;
  }
  const dryRun = () => attempt("measuring what is missing, planning …", async () => {
    result.replaceChildren(...report(await callYaml("PlanJob", requestYaml(text.value), signal)));
    result.scrollIntoView({ block: "start" });
  });
  const send = () => attempt("submitting …", async () => {
    requestId = requestId || crypto.getRandomValues(new Uint32Array(4)).join("-");
    const { job } = await callYaml("SubmitJob", requestYaml(text.value, [`request_id: "${requestId}"`]), signal);
    requestId = null;
    say(`${job.id} is queued`);
    location.hash = `#/jobs/${encodeURIComponent(job.id)}`;
  });
  const showRights = () => {
    submit.hidden = !may("SubmitJob");
    plan.hidden = !may("PlanJob");
    denied.hidden = may("SubmitJob") || rights.role === "";
  };
  showRights();
  onConnection(showRights, signal);
}
