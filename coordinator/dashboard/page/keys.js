// Keys that hold in every view, and the list of all keys.
import { byId, element } from "./dom.js";
import { changeTheme } from "./theme.js";

const VIEWS = { j: "jobs", n: "nodes", l: "links", s: "submit" };
const KEYS = [
  ["g j, g n, g l, g s", "jobs, nodes, links, submit"],
  ["/", "to the filter"],
  ["j, k", "next and previous row; Enter opens it"],
  ["1 to 5", "of a job: overview, timeline, why, logs, spec"],
  ["t", "dark or light"],
  ["arrows", "in a chart: from step to step; in the timeline: from instruction to instruction; in the matrix: from link to link"],
  ["+, −, 0", "in the timeline: zoom in, zoom out, the whole step; Shift and arrows move"],
  ["Esc", "leaves a field, closes a dialog, forgets a selection"],
  ["?", "this list"],
];

function showKeys() {
  const dialog = element("dialog", { "aria-labelledby": "keys-heading" }, element("h2", { id: "keys-heading" }, "Keys"),
    element("dl", { class: "keys" }, ...KEYS.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)),
      element("dd", {}, what)])),
    element("form", { method: "dialog", class: "buttons" }, element("button", {}, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Rows are links with data-row, in any view.
function moveRow(by) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

const isWriting = (target) => target.closest("input:not([type=checkbox]), textarea, select") !== null;

export function listenToKeys() {
  let afterG = false;
  const actions = {
    "?": showKeys, t: changeTheme, j: () => moveRow(1), k: () => moveRow(-1),
    "/": () => { const filter = document.querySelector("[data-filter]"); if (filter) filter.focus(); },
  };
  byId("keys").addEventListener("click", showKeys);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isWriting(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (afterG && VIEWS[event.key]) {
      location.hash = `#/${VIEWS[event.key]}`;
      event.preventDefault();
    } else if (!afterG && /^[1-9]$/.test(event.key)) {
      const tab = document.querySelectorAll("[data-tab]")[Number(event.key) - 1];
      if (tab) tab.click();
    } else if (!afterG && actions[event.key]) {
      actions[event.key]();
      event.preventDefault();
    }
    afterG = event.key === "g";
  });
}
