// The table of devices; those that do the same are one row, which can be opened.
const has = (part) => plan.devices.some((device) => device.memory && device.memory[part] > 0);
const PARTS = [["weights", "forward"], ["gradients", "input_gradient"], ["optimizer", "weight_gradient"], ["activations", "activations"],
  ["boundaries", "boundaries"], ["sums", "sum"], ...(has("windows") ? [["windows", "fetch"]] : []),
  ...(has("copies") ? [["copies", "store"]] : []), ["workspace", "held"]];
const MOST_ROWS = 16; // devices shown one by one
const onHost = plan.devices.some((device) => device.memory && device.memory.host > 0);
const COLUMNS = 6 + PARTS.length + (onHost ? 1 : 0);

function partsOf(device) {
  if (!device.memory) return [];
  const known = PARTS.filter(([name]) => name !== "workspace").map(([name, color]) => [name, color, device.memory[name]]);
  const rest = device.peak - known.reduce((sum, part) => sum + part[2], 0);
  return [...known, ["workspace", "held", Math.max(0, rest)]];
}

function hostText(memory) {
  if (!memory || !(memory.host > 0)) return "";
  return memory.host_limit > 0 ? `${bytesText(memory.host)} of ${bytesText(memory.host_limit)}` : bytesText(memory.host);
}

function deviceRow(device, kinds) {
  const name = [element("span", {}, element("strong", {}, device.name), ...kinds)];
  if (!device.used) return element("tr", { class: "unused" }, cell("device", name, "words"), cell("kind", device.kind, "words"),
    element("td", { colspan: COLUMNS - 2, "data-label": "" }, "not used"));
  const parts = partsOf(device);
  const notes = [device.emulated ? "emulated" : "", device.computes_f32_instead ? "computes f32 instead" : ""].filter(Boolean);
  return element("tr", {},
    cell("device", name, "words"), cell("kind", [device.kind, notes.join(", ")].filter(Boolean).join("; "), "words"),
    cell("blocks", device.blocks.map(rangeText).join(", "), "number"), cell("micro-batches", `${device.micro_batches}`, "number"),
    cell("busy", [element("div", {}, percentText(device.busy), meter([["accent", device.busy]], 1))]),
    cell("memory", [element("div", { class: "line" }, device.limit > 0
      ? `${bytesText(device.peak)} of ${bytesText(device.limit)} (${percentText(device.peak / device.limit)})` : bytesText(device.peak),
    meter(parts.map(([, color, bytes]) => [color, bytes]), device.peak))]),
    ...PARTS.map(([part]) => cell(part, parts.length > 0 ? bytesText(parts.find(([known]) => known === part)[2]) : "", "number")),
    onHost ? cell("on host", hostText(device.memory), "number") : null);
}

// Lists of devices that are shown as one, by their first.
function alikeDevices() {
  if (plan.devices.length <= MOST_ROWS) return new Map();
  const used = plan.lanes.map((lane) => lane.devices.map((device) => device.name));
  const unused = new Map();
  for (const device of plan.devices.filter((candidate) => !candidate.used))
    unused.set(device.kind, [...(unused.get(device.kind) || []), device.name]);
  return new Map([...used, ...unused.values()].map((names) => [names[0], names]));
}

function showDevices() {
  const head = ["device", "kind", "blocks", "micro-batches", "busy", "memory", ...PARTS.map(([name]) => name), ...(onHost ? ["on host"] : [])];
  const numbers = new Set(["blocks", "micro-batches", "on host", ...PARTS.map(([name]) => name)]);
  const body = element("tbody"), alike = alikeDevices(), covered = new Set();
  for (const device of plan.devices) {
    if (covered.has(device.name)) continue;
    const others = (alike.get(device.name) || [device.name]).slice(1).filter((name) => deviceByName.has(name));
    others.forEach((name) => covered.add(name));
    const button = others.length === 0 ? null : element("button", { type: "button", class: "more", click: () => {
      row.after(...others.map((name) => deviceRow(deviceByName.get(name), [])));
      button.remove();
    } }, `and ${others.length} alike`);
    const row = deviceRow(device, button ? [" ", button] : []);
    body.append(row);
  }
  byId("devices").append(
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col", class: numbers.has(name) ? "number" : null },
      ...(PARTS.some(([part]) => part === name) ? [partKey(name)] : [name]))))), body);
  for (const device of plan.left_out)
    byId("left-out").append(element("li", {}, element("strong", {}, device.name), ` was not planned with: ${device.why}`));
  byId("left-out").hidden = plan.left_out.length === 0;
}

function partKey(name) {
  const swatch = element("span", { class: "swatch" });
  swatch.style.cssText = `display: block; margin-left: auto; background: var(--${PARTS.find(([part]) => part === name)[1]})`;
  return element("span", {}, swatch, name);
}
