// What a job's message says, in words and figures.
import { element } from "./dom.js";
import { enumWord, lossText, number, tokensText } from "./format.js";

export const stateOf = (job) => enumWord(job.state, "JOB_STATE_");
export const hasEnded = (job) => ["done", "failed", "cancelled"].includes(stateOf(job));
export const isWaiting = (job) => stateOf(job) === "queued";
// What people call it: a waiting job that is held says so.
export const stateText = (job) => (isWaiting(job) && job.held ? "held" : stateOf(job));

// A name that tells states apart without its colour, too.
export function stateBadge(job) {
  const text = stateText(job);
  return element("span", { class: `state ${text}` }, text);
}

export const stepOf = (job) => number((job.last_step || {}).step);
export const stepsOf = (job) => number((job.spec || {}).steps);

export function lossOf(job) {
  if (!job.last_step || stepOf(job) === 0) return "";
  return `${lossText(number(job.last_step.loss))}${job.last_step.emulated ? " (emulated)" : ""}`;
}

export const stepSeconds = (job) => number(job.measured_step_seconds) || number((job.last_step || {}).step_seconds);

export function throughputOf(job) {
  const seconds = stepSeconds(job);
  return seconds > 0 ? tokensText(number(job.last_step && job.last_step.tokens) / seconds) : "";
}

// Seconds until its last step, as it runs now; NaN where that is not known.
export function secondsLeft(job) {
  const left = stepsOf(job) - stepOf(job), seconds = stepSeconds(job);
  return stateOf(job) === "running" && seconds > 0 ? left * seconds : NaN;
}

// Names of those in use, which jobs have in lists, too.
export const devicesOf = (job) => (((job.plan || {}).plan || {}).units || []).flatMap((unit) => unit.devices || []);

export function modelText(spec) {
  const model = spec.model || {};
  if (model.hugging_face) return model.hugging_face;
  const [name, shape] = model.llama ? ["Llama", model.llama] : ["GPT-2", model.gpt2 || {}];
  return `${name}, ${number(shape.layers)} layers of ${number(shape.hidden)}, ${number(shape.heads)} heads`;
}

export function batchText(spec) {
  const batch = spec.batch || {};
  return `${number(batch.sequences)} × ${number(batch.sequence_length)} tokens`;
}
