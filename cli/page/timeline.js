// The rows of the timeline: by kind of device, lanes with what they stand for, drawn when they come into view.
const MOST_AT_FIRST = 24; // lanes shown before somebody asks for more
const rows = []; // those that are shown, from above
const selection = { row: null, instruction: -1 };
let drawing = false;

function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    drawAxis();
    for (const row of rows) if (row.visible) drawRow(row);
    byId("range").textContent = `${secondsText(view.from)} to ${secondsText(view.to)}`;
  });
}

// What is out of view keeps its place and gives its pixels back.
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const row = entry.target.row;
    row.visible = entry.isIntersecting;
    if (row.visible) drawRow(row);
    else row.canvas.width = row.canvas.height = 0;
  }
}, { rootMargin: "200px" });

function setView(from, to) {
  const step = plan.step_seconds;
  const length = Math.min(step, Math.max(to - from, step * 1e-6));
  view.from = Math.min(Math.max(0, from), step - length);
  view.to = view.from + length;
  redraw();
}
function zoom(factor, around = (view.from + view.to) / 2) {
  setView(around - (around - view.from) / factor, around + (view.to - around) / factor);
}
function pan(share) {
  const by = share * (view.to - view.from);
  setView(view.from + by, view.to + by);
}

function nameOf(row, children) {
  const lane = row.lane, device = deviceByName.get(row.device.name);
  const facts = device ? [`busy ${percentText(device.busy)}`] : [];
  if (lane.hasMemory()) facts.push(`${bytesText(lane.device.peak)}${lane.device.limit > 0 ? ` of ${bytesText(lane.device.limit)}` : ""}`);
  return element("div", { class: "name" }, element("span", {}, row.device.name), element("small", {}, facts.join(" · ")), ...children);
}

function makeRow(lane, device, style, children) {
  const row = new Row(lane, device);
  row.canvas = element("canvas");
  row.chart = element("div", { class: "chart", tabindex: -1, role: "application",
    "aria-label": `${device.name}: ${countText(lane.count, "instruction", "instructions")}; arrows go through them` }, row.canvas);
  row.chart.row = row;
  row.element = element("div", { class: `row lane ${style}` }, nameOf(row, children), row.chart);
  row.canvas.style.height = `${rowHeight(lane)}px`;
  listen(row);
  return row;
}

// Shows `row` behind `before`, or at the end of `parent`.
function insertRow(row, parent, before) {
  if (before) before.element.after(row.element);
  else parent.append(row.element);
  rows.splice(before ? rows.indexOf(before) + 1 : rows.length, 0, row);
  if (rows.length === 1) row.chart.tabIndex = 0;
  watcher.observe(row.chart);
}
function removeRow(row) {
  watcher.unobserve(row.chart);
  row.element.remove();
  rows.splice(rows.indexOf(row), 1);
  if (selection.row === row) select(null, -1);
  if (row.chart.tabIndex === 0 && rows.length > 0) rows[0].chart.tabIndex = 0;
}

// A lane, and a button for the devices that it stands for.
function addLane(lane, parent, before) {
  let alike = [];
  const others = lane.devices.slice(1);
  const button = others.length === 0 ? null : element("button", { type: "button", "aria-expanded": "false", click: () => {
    if (alike.length > 0) {
      alike.forEach(removeRow);
      alike = [];
    } else {
      let last = row;
      for (const device of others) {
        const next = makeRow(lane, device, "alike", []);
        insertRow(next, parent, last);
        alike.push(next);
        last = next;
      }
    }
    button.setAttribute("aria-expanded", String(alike.length > 0));
    button.textContent = alike.length > 0 ? "hide those alike" : label;
  } });
  const label = `× ${lane.devices.length}: ${others.length} more alike`;
  if (button) button.textContent = label;
  const row = makeRow(lane, lane.devices[0], "", button ? [button] : []);
  insertRow(row, parent, before);
}

function addKind(kind, all, most) {
  const lanes = all.filter((lane) => !lane.leftOut);
  const leftOut = all.filter((lane) => lane.leftOut).flatMap((lane) => lane.devices.map((device) => device.name));
  const count = all.reduce((sum, lane) => sum + lane.devices.length, 0);
  const parent = element("div");
  byId("lanes").append(element("h3", { class: "kind" }, kind || "device", element("span", {}, ` — ${countText(count, "device", "devices")}` +
    (all.length < count ? `, ${countText(all.length, "timeline", "timelines")}` : ""))), parent);
  if (leftOut.length > 0)
    parent.after(element("p", { class: "quiet" }, "Left out, so that this page stays within a few megabytes: ", words(leftOut.join(", "))));
  for (const lane of lanes.slice(0, most)) addLane(lane, parent, null);
  const hidden = lanes.slice(most);
  if (hidden.length === 0) return;
  const more = element("button", { type: "button", click: () => {
    more.remove();
    for (const lane of hidden) addLane(lane, parent, lastRowIn(parent));
  } }, `Show ${countText(hidden.length, "more timeline", "more timelines")}`);
  parent.after(more);
}
// The last of the rows that stand in `parent`.
function lastRowIn(parent) {
  return rows.filter((row) => row.element.parentNode === parent).pop();
}

function addLegend(lanes) {
  const seen = new Set(lanes.flatMap((lane) => [...new Set(lane.what)].map((what) => plan.whats[what].class)));
  const swatch = (color, style = "") => {
    const made = element("span", { class: `swatch ${style}` });
    if (style === "stroke") made.style.borderColor = `var(--${color})`;
    else if (color) made.style.background = `var(--${color})`;
    return made;
  };
  for (const known of CLASSES.filter((candidate) => seen.has(candidate.id))) {
    const button = element("button", { type: "button", "aria-pressed": "false", click: () => {
      view.alone = view.alone === known.id ? null : known.id;
      for (const other of byId("legend").querySelectorAll("button"))
        other.setAttribute("aria-pressed", String(other === button && view.alone !== null));
      redraw();
    } }, swatch(known.id), known.name);
    byId("legend").append(button);
  }
  const key = (name, ...of) => byId("legend").append(element("span", { class: "key" }, swatch(...of), name));
  key("waiting", null, "idle");
  if (!lanes.some((lane) => lane.hasMemory())) return;
  key("memory held all the time", "held");
  key("activations in use", "activations");
  key("boundaries in use", "boundaries");
  key("reserved", "reserved", "stroke");
  key("limit", "limit", "stroke");
}

function showTimeline() {
  const lanes = plan.lanes.filter((data) => data.devices.length > 0).map((data) => new Lane(data));
  if (!plan.has_predicted_step || lanes.length === 0) {
    byId("no-step").textContent = "When each device does what is not known of this plan: what it was made from was not kept, " +
      "or the coordinator is of an older version.";
    byId("no-step").hidden = false;
    return;
  }
  byId("timeline").hidden = false;
  const byKind = new Map();
  for (const lane of lanes) byKind.set(lane.kind, [...(byKind.get(lane.kind) || []), lane]);
  const most = lanes.length <= MOST_AT_FIRST ? lanes.length : Math.max(2, Math.floor(MOST_AT_FIRST / byKind.size));
  addLegend(lanes);
  for (const [kind, ofKind] of byKind) addKind(kind, ofKind, most);
  const onClick = (id, action) => byId(id).addEventListener("click", action);
  onClick("zoom-in", () => zoom(1.6));
  onClick("zoom-out", () => zoom(1 / 1.6));
  onClick("earlier", () => pan(-0.3));
  onClick("later", () => pan(0.3));
  onClick("whole", () => setView(0, plan.step_seconds));
  byId("with-memory").addEventListener("change", (event) => {
    view.withMemory = event.target.checked;
    for (const row of rows) row.canvas.style.height = `${rowHeight(row.lane)}px`;
    redraw();
  });
  new ResizeObserver(redraw).observe(byId("lanes"));
  redraw();
}
