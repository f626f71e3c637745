// Nodes, their devices and leases.
import { get } from "./api.js";
import { onConnection, repeat } from "./connection.js";
import { element, headRow, notice, setText } from "./dom.js";
import { bytesText, countText, number } from "./format.js";
import { NODE_COLUMNS, NODE_NUMBERS, NodeRows } from "./node_rows.js";

function summaryText(nodes) {
  const alive = nodes.filter((node) => node.alive), lost = nodes.length - alive.length,
    devices = alive.flatMap((node) => node.devices || []);
  const busy = alive.reduce((sum, node) => sum + Object.keys(node.jobs || {}).length, 0);
  const memory = devices.reduce((sum, device) => sum + number(device.memory_bytes), 0);
  if (nodes.length === 0) return "No agent has registered yet.";
  return `${countText(alive.length, "node", "nodes")} alive${lost > 0 ? `, ${lost} lost` : ""}; ` +
    `${countText(devices.length, "device", "devices")}, ${busy} in use, ${bytesText(memory)} of memory.`;
}

export function show(parent, parameters, signal) {
  const summary = element("p", { class: "quiet" }), trouble = element("div", { role: "alert" }), rows = new Map();
  const table = element("table", { class: "nodes" }, headRow(NODE_COLUMNS, NODE_NUMBERS));
  const filter = element("input", { type: "search", placeholder: "Filter by node, device or job", "aria-label": "Filter nodes",
    "data-filter": true,
    input: () => showAll() });
  let nodes = null;
  parent.append(element("div", { class: "heading" }, element("h1", {}, "Nodes"), filter), trouble, summary,
    element("div", { class: "scroll" }, table));

  function showAll() {
    if (nodes === null) return;
    const text = filter.value.trim().toLowerCase();
    const found = nodes.filter((node) => text === "" || JSON.stringify([node.name, node.devices, node.jobs, node.site, node.rack,
      node.status]).toLowerCase().includes(text));
    const names = new Set(found.map((node) => node.name));
    setText(summary, summaryText(nodes));
    for (const [name, known] of rows) if (!names.has(name)) {
      known.body.remove();
      rows.delete(name);
    }
    found.forEach((node, i) => {
      if (!rows.has(node.name)) rows.set(node.name, new NodeRows());
      const known = rows.get(node.name);
      known.update(node, nodes.filter((other) => other !== node && other.host && other.host === node.host).map((other) => other.name));
      if (table.tBodies[i] !== known.body) table.insertBefore(known.body, table.tBodies[i] || null);
    });
  }
  onConnection(showAll, signal);
  repeat(2, signal, async () => {
    nodes = (await get("ListNodes", {}, signal)).nodes || [];
    trouble.replaceChildren();
    showAll();
  }, (error) => trouble.replaceChildren(notice(error.message, "error")));
}
