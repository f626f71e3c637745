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
  const runs = [[device.backend, device.variant].filter(Boolean).join(" "), device.emulated ? "emulated" : "", computes.length > 0 ? `f32, ${computes.join(", ")}` : "",
    cores.length > 0 ? `${cores.length === 1 ? "core" : "cores"} ${cores.join(", ")}` : ""].filter(Boolean).join(" · ");
  const price = device.price_per_hour === undefined ? "" : number(device.price_per_hour).toFixed(2);
  return element("tr", {}, cell("device", element("span", {}, device.name), "device"), cell("runs on", runs, "words"), cell("kind", device.kind || "", "words"),
    cell("memory", number(device.memory_bytes) > 0 ? bytesText(number(device.memory_bytes)) : "", "number"), cell("price an hour", price, "number"),
    cell("job", job ? element("a", { href: `#/jobs/${encodeURIComponent(job)}`, "data-row": true }, job) : element("span", { class: "quiet" }, node.alive ? "free" : "")));
}

function forgetButton(node) {
  if (node.alive || !may("ForgetNode")) return null;
  return element("button", { type: "button", class: "danger", click: () => ask({ title: `Forget ${node.name}?`, verb: "Forget the node", danger: true,
    text: "It is no longer listed. Should it come back, it registers anew.",
    work: async () => {
      await call("ForgetNode", { node: node.name });
      return `${node.name} is forgotten`;
    } }) }, "Forget");
}

function factsOf(node, sameMachine) {
  const renewed = `lease renewed ${durationText(number(node.seconds_since_renewal))} ago`, hostMemory = number(node.host_memory_bytes);
  return [node.alive ? renewed : `${node.status || "lost"}, ${renewed}`, node.agent_address, node.site ? `site ${node.site}` : "",
    hostMemory > 0 ? `${bytesText(hostMemory)} of host memory` : "", number(node.network_cards) > 0 ? countText(number(node.network_cards), "network card", "network cards") : "",
    sameMachine.length > 0 ? `same machine as ${sameMachine.join(", ")}` : ""].filter(Boolean).join(" · ");
}

// Changed in place.
export class NodeRows {
  constructor() {
    this.facts = element("span", { class: "quiet" });
    this.head = element("th", { colspan: NODE_COLUMNS.length, scope: "rowgroup" });
    this.body = element("tbody");
    this.shown = "";
  }
  update(node, sameMachine) {
    setText(this.facts, factsOf(node, sameMachine));
    const content = JSON.stringify([node.alive, node.devices, node.jobs, may("ForgetNode")]);
    if (content === this.shown) return;
    this.shown = content;
    this.body.className = node.alive ? "" : "lost";
    this.head.replaceChildren(...[element("strong", {}, node.name), element("span", { class: `state ${node.alive ? "done" : "failed"}` }, node.alive ? "alive" : "lost"),
      this.facts, forgetButton(node)].filter(Boolean));
    this.body.replaceChildren(element("tr", { class: "node" }, this.head), ...(node.devices || []).map((device) => deviceRow(node, device)));
  }
}
