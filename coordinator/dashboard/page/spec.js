// What was asked for, and what a job is known by.
import { element } from "./dom.js";
import { keepDraft } from "./submit.js";

// As a job file has them: in lower case without what they begin with.
const ENUMS = new RegExp(`^(${["TOKEN_FORMAT", "ORDER", "PRECISION", "DECAY", "OBJECTIVE", "SCHEDULE", "ALL_REDUCE_ALGORITHM",
  "DEVICE_MEMORY_STRATEGY", "TENSOR_TYPE", "RECOMPUTE", "ACTIVATIONS_HOME", "LAYERS_HOME"].join("|")})_([A-Z0-9_]+)$`);

// Fields in which 0 is not the same as left out.
const WITH_ZERO = new Set(["learning_rate", "minimum_learning_rate", "weight_decay", "clip_norm", "beta1", "beta2", "max_restarts",
  "priority",
  "optimizer_weight", "units"]);

function isLeftOut(key, value) {
  if (typeof value === "object" && value !== null) return Object.values(value).every((one) => isLeftOut("", one)) && !WITH_ZERO.has(key);
  return value === "" || value === "unspecified" || value === false || (Number(value) === 0 && !WITH_ZERO.has(key));
}

function scalar(value) {
  if (typeof value !== "string") return String(value);
  const known = ENUMS.exec(value);
  if (known) return known[2].toLowerCase();
  return /^([A-Za-z_/][\w./-]*|\d+)$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value) ? value : JSON.stringify(value);
}

// YAML of a message's JSON.
export function yamlOf(value, indent = "") {
  const isBranch = (one) => typeof one === "object" && one !== null;
  if (Array.isArray(value))
    return value.map((one) => (isBranch(one) ? `${indent}- ${yamlOf(one, `${indent}  `).slice(indent.length + 2)}`
      : `${indent}- ${scalar(one)}\n`)).join("");
  return Object.entries(value).filter(([key, one]) => !isLeftOut(key, one)).map(([key, one]) =>
    (isBranch(one) ? `${indent}${key}:\n${yamlOf(one, `${indent}  `)}` : `${indent}${key}: ${scalar(one)}\n`)).join("");
}

export function showSpec(parent, { id }) {
  const text = element("pre", { tabindex: 0, "aria-label": "Job spec" }), facts = element("dl", { class: "facts" });
  const copy = element("button", { type: "button", click: () => {
    keepDraft(text.textContent);
    location.hash = "#/submit";
  } }, "Take it for a new job");
  parent.append(element("h2", {}, "Known by"), facts, element("div", { class: "heading" }, element("h2", {}, "Spec"), copy), text);
  return (job) => {
    const known = [["id", id], ["run", job.run_id], ["attempt", job.attempt], ["data", job.data_fingerprint],
      ["checkpoint", job.checkpoint_path]];
    facts.replaceChildren(...known.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name),
      element("dd", {}, String(value))]));
    const yaml = yamlOf(job.spec || {});
    if (text.textContent !== yaml) text.textContent = yaml;
  };
}
