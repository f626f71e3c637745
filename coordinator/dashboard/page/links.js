// The links between devices as a matrix; one that is chosen, by message size.
import { collect } from "./api.js";
import { may, onConnection, repeat } from "./connection.js";
import { ask } from "./dialog.js";
import { element, notice, setText } from "./dom.js";
import { countText, momentText, number, rateText, secondsText } from "./format.js";
import { linkDetails } from "./link_details.js";

const FIGURES = {
  bandwidth: { of: (link) => number(link.bytes_per_second), text: rateText, best: Math.max, unit: "bandwidth of large messages" },
  latency: { of: (link) => number(link.latency_seconds), text: secondsText, best: Math.min, unit: "latency, half a round trip of 8 bytes" },
  "all-reduce": { of: (link) => number(link.all_reduce_bytes_per_second), text: rateText, best: Math.max,
    unit: "of a sum of gradients over the two" },
};
const MOST_DEVICES = 40; // in a matrix; a filter chooses which
const key = (a, b) => (a < b ? `${a} ${b}` : `${b} ${a}`);

class Matrix {
  constructor(onChoice) {
    Object.assign(this, { onChoice, figure: "bandwidth", chosen: null });
    this.table = element("table", { class: "matrix", role: "grid", "aria-label": "Links between devices" });
    this.table.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(devices, links) {
    Object.assign(this, { devices, byPair: new Map(links.map((link) => [key(link.a, link.b), link])) });
    const { of } = FIGURES[this.figure], values = links.map(of).filter((value) => value > 0);
    this.low = Math.log(Math.min(...values));
    this.high = Math.log(Math.max(...values));
    const focused = document.activeElement && document.activeElement.dataset.pair;
    const head = element("tr", {}, element("td"), ...devices.map((device) => element("th", { scope: "col" }, element("span", {}, device))));
    this.table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...devices.map((a) =>
      element("tr", {}, element("th", { scope: "row" }, a), ...devices.map((b) => this.cellOf(a, b))))));
    const cells = [...this.table.querySelectorAll("[data-pair]")];
    const again = cells.find((one) => one.dataset.pair === focused);
    if (again) again.focus();
    const current = again || cells.find((one) => one.dataset.pair === this.chosen) || cells[0];
    if (current) current.tabIndex = 0;
  }

  cellOf(a, b) {
    const link = a === b ? null : this.byPair.get(key(a, b)), { of, text, best } = FIGURES[this.figure];
    if (!link) return element("td", { class: a === b ? "self" : "unknown", "aria-label": a === b ? null : `${a} to ${b}: not measured` },
      a === b ? "" : "–");
    const value = of(link), spread = this.high - this.low, share = spread > 0 ? (Math.log(value) - this.low) / spread : 1;
    const good = best === Math.max ? share : 1 - (spread > 0 ? share : 0), pair = `${a} ${b}`;
    const made = element("td", { role: "gridcell", tabindex: -1, "data-pair": pair, "aria-selected": String(this.chosen === key(a, b)),
      "aria-label": `${a} to ${b}: ${text(value)}`, click: () => this.choose(a, b), focus: () => this.choose(a, b) }, text(value));
    made.style.setProperty("--good", `${Math.round(12 + 60 * good)}%`);
    if (link.measured_between) made.classList.add("alike");
    return made;
  }

  choose(a, b) {
    if (this.chosen === key(a, b)) return;
    this.chosen = key(a, b);
    for (const one of this.table.querySelectorAll("[data-pair]")) {
      const [from, to] = one.dataset.pair.split(" ");
      one.setAttribute("aria-selected", String(key(from, to) === this.chosen));
      one.tabIndex = from === a && to === b ? 0 : -1;
    }
    this.onChoice(this.byPair.get(this.chosen), a, b);
  }

  onKey(event) {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key],
      at = event.target.closest("td");
    if (!moves || !at) return;
    const rows = [...this.table.tBodies[0].rows];
    let row = rows.indexOf(at.parentNode), column = at.cellIndex;
    do {
      row += moves[0];
      column += moves[1];
    } while (rows[row] && rows[row].cells[column] && rows[row].cells[column].dataset.pair === undefined);
    const next = rows[row] && column > 0 && rows[row].cells[column];
    if (next) next.focus();
    event.preventDefault();
  }
}

export function show(parent, parameters, signal) {
  let devices = [], links = [], shown = "";
  const details = element("section", { "aria-live": "polite" }), trouble = element("div", { role: "alert" }),
    summary = element("p", { class: "quiet" });
  const matrix = new Matrix((link, a, b) => details.replaceChildren(linkDetails(link, a, b)));
  const filter = element("input", { type: "search", placeholder: "Filter devices", "aria-label": "Filter devices", "data-filter": true,
    input: () => showAll() });
  const buttons = Object.keys(FIGURES).map((name) => element("button", { type: "button", "aria-pressed": String(name === "bandwidth"),
    click: () => {
    matrix.figure = name;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === name)));
    showAll();
  } }, name));
  const measure = element("button", { type: "button", click: () => ask({ title: "Measure the links anew?", verb: "Measure",
    text: "One link of each kind is measured, for seconds each. The devices must be free.",
    work: async () => {
      const answer = await collect("MeasureLinks", {}, ["devices", "links"], signal, "POST");
      take(answer);
      return `${countText(answer.links.length, "link is", "links are")} known`;
    } }) }, "Measure");
  parent.append(element("div", { class: "heading" }, element("h1", {}, "Links"),
    element("div", { class: "chips", role: "group", "aria-label": "Figure" }, ...buttons), filter, measure),
    trouble, summary, element("div", { class: "scroll" }, matrix.table), details);

  function showAll() {
    const text = filter.value.trim().toLowerCase(), found = devices.filter((device) => device.toLowerCase().includes(text));
    const names = new Set(found.slice(0, MOST_DEVICES)), newest = Math.max(0, ...links.map((link) => number(link.measured_at_seconds)));
    setText(summary, devices.length === 0 ? "No node is alive." : links.length === 0
      ? "No link has been measured yet; a job that is planned for several devices has them measured, as does the button above."
      : `${FIGURES[matrix.figure].unit}; the stronger the colour, the better. ` +
        `Italic: taken to be as another of its kind. Newest of ${momentText(newest, true)}.` +
        (found.length > MOST_DEVICES ? ` The first ${MOST_DEVICES} of ${found.length} devices are shown; the filter chooses others.` : ""));
    matrix.show([...names], links.filter((link) => names.has(link.a) && names.has(link.b)));
  }
  function take(answer) {
    const content = JSON.stringify([answer.devices, answer.links]);
    if (content === shown) return;
    shown = content;
    ({ devices, links } = answer);
    showAll();
  }
  const showRight = () => { measure.hidden = !may("MeasureLinks"); };
  showRight();
  onConnection(showRight, signal);
  repeat(10, signal, async () => {
    take(await collect("ListLinks", {}, ["devices", "links"], signal));
    trouble.replaceChildren();
  }, (error) => trouble.replaceChildren(notice(error.message, "error")));
}
