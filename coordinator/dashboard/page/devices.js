// The devices of a plan: what each holds and does.
import { cell, element, headRow, meter, swatch } from "./dom.js";
import { bytesText, enumWord, number, percentText, rangeText } from "./format.js";

const PARTS = [["weights", "forward", "parameter_bytes"], ["gradients", "input_gradient", "gradient_bytes"],
  ["optimizer", "weight_gradient", "optimizer_bytes"], ["activations", "activations", "activation_bytes"],
  ["boundaries", "boundaries", "boundary_bytes"], ["sums", "sum", "sum_bytes"],
  ["windows", "fetch", "window_bytes"]];
const COLUMNS = ["device", "kind", "blocks", "micro-batches", "busy", "memory", "of it"];
const NUMBERS = new Set(["blocks", "micro-batches"]);

function blocksOf(plan, device) {
  const units = ((plan.plan || {}).units || []).filter((unit) => (unit.devices || []).includes(device.device));
  const ranges = units.flatMap((unit) => (unit.blocks || []).map((range) => rangeText(number(range.first), number(range.end))));
  return [...new Set(ranges)].join(", ") || `${number(device.blocks) || ""}`;
}

function partsOf(device) {
  const memory = device.memory || {}, parts = PARTS.map(([name, color, field]) => [name, color, number(memory[field])]);
  const known = parts.reduce((sum, part) => sum + part[2], 0);
  return [...parts, ["workspace", "held", Math.max(0, number(device.peak_memory_bytes) - known)]].filter((part) => part[2] > 0);
}

function hostText(device) {
  const memory = device.memory || {}, limit = number(memory.host_limit_bytes);
  return `on host ${bytesText(number(memory.host_bytes))}${limit > 0 ? ` of ${bytesText(limit)}` : ""}`;
}

function kindOf(device) {
  return [device.kind, device.emulated ? "emulated" : "", device.computes_f32_instead ? "computes f32 instead"
    : ""].filter(Boolean).join("; ");
}

function deviceRow(plan, device) {
  const name = element("strong", {}, device.device);
  if (!device.used)
    return element("tr", { class: "unused" }, cell("device", name, "device"), cell("kind", kindOf(device), "words"),
      element("td", { colspan: COLUMNS.length - 2, "data-label": "" }, "not used"));
  const peak = number(device.peak_memory_bytes), limit = number(device.memory_limit_bytes), busy = number(device.busy_share),
    parts = partsOf(device);
  return element("tr", {}, cell("device", name, "device"), cell("kind", kindOf(device), "words"), cell("blocks", blocksOf(plan, device),
    "number"),
    cell("micro-batches", `${number(device.micro_batches) || ""}`, "number"),
    cell("busy", element("div", { class: "line" }, percentText(busy), meter([["accent", busy]], 1))),
    cell("memory", element("div", { class: "line" },
      limit > 0 ? `${bytesText(peak)} of ${bytesText(limit)} (${percentText(peak / limit, peak < 0.1 * limit ? 1 : 0)})` : bytesText(peak),
      meter([["accent", peak]], limit || peak))),
    cell("of it", element("div", {}, meter(parts.map(([, color, bytes]) => [color, bytes]), peak),
      element("small", { class: "quiet parts" }, ...parts.map(([part, color, bytes]) => element("span", {}, swatch(color),
        `${part} ${bytesText(bytes)}`)), number((device.memory || {}).host_bytes) > 0 ? element("span", {}, hostText(device)) : null))));
}

function scheduleText(plan) {
  const words = { one_forward_one_backward: "1F1B", unspecified: "1F1B", gpipe: "GPipe", listed: "an order of its own" };
  const schedule = enumWord((plan.plan || {}).schedule, "SCHEDULE_");
  return `schedule: ${words[schedule] || schedule.replace(/_/g, " ")}`;
}

// update(plan) shows a PlanReport, or nothing where there is none yet.
export function deviceTable() {
  const body = element("tbody"), description = element("p", { class: "quiet" }), left = element("ul");
  const made = element("section", { hidden: true, class: "devices" }, element("h2", {}, "Devices, as planned"), description,
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Devices" },
      element("table", {}, headRow(COLUMNS, NUMBERS), body)), left);
  let shown = "";
  return { element: made, update(plan) {
    const content = JSON.stringify(plan ? [plan.devices, plan.left_out, plan.description] : null);
    if (content === shown) return;
    shown = content;
    made.hidden = !plan || !(plan.devices || []).length;
    if (made.hidden) return;
    description.textContent = `${plan.description} (${scheduleText(plan)})`;
    body.replaceChildren(...plan.devices.map((device) => deviceRow(plan, device)));
    left.replaceChildren(...(plan.left_out || []).map((device) =>
      element("li", {}, element("strong", {}, device.device), ` was not planned with: ${device.why}`)));
  } };
}
