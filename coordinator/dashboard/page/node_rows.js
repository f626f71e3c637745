// A node's rows in the table: its lease, and a row for each device.
import { call } from "./api.js";
import { may } from "./connection.js";
import { ask } from "./dialog.js";
import { cell, element, setText } from "./dom.js";
import { bytesText, countText, durationText, number } from "./format.js";

export const NODE_COLUMNS = ["device", "runs on", "kind", "memory", "price an hour", "job"];
export const NODE_NUMBERS = new Set(["memory", "price an hour"]);

function deviceRow(node, device) {
  const job = (node.jobs || {})[device.name], cores = device.cores || [];
  const computes = [device.computes_bf16 ? "bf16" : "", device.computes_f16 ? "f16" : ""].filter(Boolean);
  const runs = [[device.backend, device.variant].filter(Boolean).join(" "), device.emulated ? "emulated" : "",
    computes.length > 0 ? `f32, ${computes.join(", ")}` : "",
    cores.length > 0 ? `${cores.length === 1 ? "core" : "cores"} ${cores.join(", ")}` : ""].filter(Boolean).join(" · ");
  const price = device.price_per_hour === undefined ? "" : number(device.price_per_hour).toFixed(2);
  return element("tr", {}, cell("device", element("span", {}, device.name), "device"), cell("runs on", runs, "words"),
    cell("kind", device.kind || "", "words"),
    cell("memory", number(device.memory_bytes) > 0 ? bytesText(number(device.memory_bytes)) : "", "number"), cell("price an hour", price,
      "number"),
    cell("job", job ? element("a", { href: `#/jobs/${encodeURIComponent(job)}`, "data-row": true }, job) : element("span",
      { class: "quiet" }, node.alive ? "free" : "")));
}

function drainButton(node) {
  if (!node.alive || !may("DrainNode")) return null;
  const leaving = (jobs) => (jobs.length > 0 ? `; ${jobs.join(", ")} ${jobs.length === 1 ? "leaves" : "leave"} it` : "");
  return element("button", { type: "button", click: () => ask(node.drained
    ? { title: `Let jobs start on ${node.name} again?`, verb: "Undrain", text: "Its devices are planned with again.",
      work: async () => {
        await call("UndrainNode", { node: node.name });
        return `jobs may start on ${node.name} again`;
      } }
    : { title: `Drain ${node.name}?`, verb: "Drain", options: { now: "also end jobs that write no checkpoints: they begin anew elsewhere" },
      text: "No job starts on it any more. Jobs that write checkpoints save one and go on without it; others stay until they have ended.",
      work: async ({ now }) => `${node.name} is drained${leaving((await call("DrainNode", { node: node.name, now })).leaving || [])}` }) },
  node.drained ? "Undrain" : "Drain");
}

function forgetButton(node) {
  if (node.alive || !may("ForgetNode")) return null;
  return element("button", { type: "button", class: "danger", click: () => ask({ title: `Forget ${node.name}?`, verb: "Forget the node",
    danger: true,
    text: "It is no longer listed. Should it come back, it registers anew.",
    work: async () => {
      await call("ForgetNode", { node: node.name });
      return `${node.name} is forgotten`;
    } }) }, "Forget");
}

// What a node is: its name, and the colour of a job's state that is like it.
function stateOf(node) {
  if (!node.alive) return ["lost", "failed"];
  return node.drained ? ["drained", "queued"] : ["alive", "done"];
}

function factsOf(node, sameMachine) {
  const renewed = `lease renewed ${durationText(number(node.seconds_since_renewal))} ago`, hostMemory = number(node.host_memory_bytes);
  return [node.alive ? renewed : `${node.status || "lost"}, ${renewed}`, node.agent_address, node.site ? `site ${node.site}` : "",
    node.rack ? `rack ${node.rack}` : "",
    hostMemory > 0 ? `${bytesText(hostMemory)} of host memory` : "", number(node.network_cards) > 0 ? countText(number(node.network_cards),
      "network card", "network cards") : "",
    sameMachine.length > 0 ? `same machine as ${sameMachine.join(", ")}` : ""].filter(Boolean).join(" · ");
}

// Changed in place.
export class NodeRows {
  constructor() {
    this.facts = element("span", { class: "quiet" });
    this.head = element("div");
    this.row = element("tr", { class: "node" }, element("th", { colspan: NODE_COLUMNS.length, scope: "rowgroup" }, this.head));
    this.body = element("tbody");
    this.shown = "";
  }
  update(node, sameMachine) {
    setText(this.facts, factsOf(node, sameMachine));
    const content = JSON.stringify([node.alive, node.drained, node.devices, node.jobs, may("ForgetNode"), may("DrainNode")]);
    if (content === this.shown) return;
    this.shown = content;
    this.body.className = node.alive ? "" : "lost";
    const [state, like] = stateOf(node);
    this.head.replaceChildren(element("strong", {}, node.name), " ", element("span", { class: `state ${like}` }, state), " ", this.facts,
      ...[drainButton(node), forgetButton(node)].filter(Boolean));
    this.body.replaceChildren(this.row, ...(node.devices || []).map((device) => deviceRow(node, device)));
  }
}
