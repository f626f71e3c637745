// A job's plan as it ran in its newest traced step: for each device what was predicted above what was measured.
import { get } from "./api.js";
import { repeat } from "./connection.js";
import { cell, element, headRow, notice, setText, swatch } from "./dom.js";
import { differenceText, percentText, secondsText } from "./format.js";
import { onTheme } from "./theme.js";
import { drawAxis, drawRow, rowHeight, trackTop } from "./timeline_drawing.js";
import { listenToRow } from "./timeline_gestures.js";
import { BANDS, Trace } from "./trace.js";

const LOOK_EVERY_SECONDS = 5;

class Timeline {
  constructor(parent, signal) {
    Object.assign(this, { rows: [], view: { from: 0, to: 1, alone: null, lengths: [0, 0] }, selection: { row: null, instruction: -1 },
      trace: null });
    this.axis = element("canvas");
    this.lanes = element("div", { class: "lanes" });
    this.legend = element("div", { class: "legend", role: "group", "aria-label": "What the colours mean; press one to see it alone" });
    this.said = element("p", { id: "selection", role: "status", "aria-live": "polite" });
    this.range = element("span", { class: "quiet range" });
    const button = (text, label, click) => element("button", { type: "button", "aria-label": label, click }, text);
    const tools = element("div", { class: "toolbar", role: "toolbar", "aria-label": "Timeline" },
      button("+", "Zoom in", () => this.zoom(1.6)), button("−", "Zoom out", () => this.zoom(1 / 1.6)),
        button("←", "Earlier", () => this.pan(-0.3)),
      button("→", "Later", () => this.pan(0.3)), button("Whole step", null, () => this.setView(0, this.trace.seconds)), this.range);
    this.totals = element("tbody");
    parent.append(tools, this.legend, element("div", { class: "row axis", "aria-hidden": "true" }, element("div"), this.axis), this.lanes,
      this.said,
      element("p", { class: "quiet" },
        "Of each device the upper band is predicted, the lower measured; thick tracks compute, thin ones are messages, sums and ",
        "copies beside it. Drag to move, pinch or hold Ctrl and turn the wheel to zoom; arrows go through instructions, ",
        "+ and − zoom, 0 shows the whole step."),
      element("h2", {}, "Predicted and measured, of all devices together"),
      element("table", { class: "totals" }, headRow(["what", "how many", "predicted", "measured", "difference"],
        new Set(["how many", "predicted", "measured", "difference"])), this.totals));
    onTheme(() => this.redraw(), signal);
    const sizes = new ResizeObserver(() => this.redraw());
    sizes.observe(this.lanes);
    signal.addEventListener("abort", () => sizes.disconnect());
  }

  show(trace) {
    const alike = this.trace && this.trace.lanes.map((lane) => lane.device).join() === trace.lanes.map((lane) => lane.device).join();
    const whole = !this.trace || (this.view.from === 0 && this.view.to === this.trace.seconds);
    this.trace = trace;
    this.view.lengths = trace.lengths;
    if (!alike) this.makeRows();
    this.rows.forEach((row, i) => { row.lane = trace.lanes[i]; });
    this.select(null, -1);
    if (whole || !alike) this.setView(0, trace.seconds);
    this.showTexts();
    this.redraw();
  }

  makeRows() {
    this.rows = this.trace.lanes.filter((lane) => lane.tracks.length > 0).map((lane) => {
      const canvas = element("canvas"), facts = BANDS.map(() => element("small"));
      const chart = element("div", { class: "chart-area", tabindex: -1, role: "application",
        "aria-label": `${lane.device}: arrows go through its instructions` }, canvas);
      return { lane, canvas, chart, facts, element: element("div", { class: "row lane" },
        element("div", { class: "name" }, element("div", {}, element("strong", {}, lane.device), facts[0]), element("div", {}, facts[1])),
          chart) };
    });
    if (this.rows.length > 0) this.rows[0].chart.tabIndex = 0;
    this.rows.forEach((row) => listenToRow(this, row));
    this.lanes.replaceChildren(...this.rows.map((row) => row.element));
  }

  showTexts() {
    for (const { lane, facts, canvas } of this.rows) {
      facts.forEach((fact, band) => {
        setText(fact, `${BANDS[band]}, busy ${percentText(lane.computingSeconds(band) / (this.trace.lengths[band] || 1))}`);
        fact.parentNode.style.setProperty("--below", `${trackTop(lane, band, 0)}px`);
      });
      canvas.style.height = `${rowHeight(lane)}px`;
    }
    const totals = this.trace.totals();
    if (this.legend.childElementCount !== totals.length) this.legend.replaceChildren(...totals.map((known) => this.legendButton(known)));
    this.totals.replaceChildren(...totals.map(({ name, count, seconds }) => element("tr", {}, cell("what", name),
      cell("how many", `${count}`, "number"),
      cell("predicted", secondsText(seconds[0]), "number"), cell("measured", secondsText(seconds[1]), "number"),
        cell("difference", differenceText(...seconds), "number"))));
  }

  legendButton({ id, name }) {
    const button = element("button", { type: "button", "aria-pressed": "false", click: () => {
      this.view.alone = this.view.alone === id ? null : id;
      for (const other of this.legend.children) other.setAttribute("aria-pressed", String(other === button && this.view.alone !== null));
      this.redraw();
    } }, swatch(id), name);
    return button;
  }

  redraw() {
    if (this.drawing || !this.trace) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      drawAxis(this.axis, this.view);
      for (const row of this.rows) drawRow(row, this.view, this.selection.row === row ? this.selection.instruction : -1);
      setText(this.range, `${secondsText(this.view.from)} to ${secondsText(this.view.to)}`);
    });
  }

  setView(from, to) {
    const whole = this.trace.seconds, length = Math.min(whole, Math.max(to - from, whole * 1e-6));
    this.view.from = Math.min(Math.max(0, from), whole - length);
    this.view.to = this.view.from + length;
    this.redraw();
  }
  zoom(factor, around = (this.view.from + this.view.to) / 2) {
    this.setView(around - (around - this.view.from) / factor, around + (this.view.to - around) / factor);
  }
  pan(share) {
    const by = share * (this.view.to - this.view.from);
    this.setView(this.view.from + by, this.view.to + by);
  }

  select(row, instruction) {
    this.selection = instruction >= 0 ? { row, instruction } : { row: null, instruction: -1 };
    setText(this.said, instruction >= 0 ? `${row.lane.device}: ${row.lane.describe(instruction)}` : "");
    this.redraw();
  }
  selectAndShow(row, instruction) {
    this.select(row, instruction);
    const { start, end } = row.lane.bands[1], { from, to } = this.view, length = to - from;
    if (start[instruction] < from) this.setView(start[instruction] - length * 0.1, start[instruction] + length * 0.9);
    else if (end[instruction] > to) this.setView(end[instruction] - length * 0.9, end[instruction] + length * 0.1);
  }
}

export function showTimeline(parent, { id }, signal) {
  const headline = element("p", { class: "lead" }), follow = element("input", { type: "checkbox", checked: true }),
    trouble = element("div", { role: "status" });
  const body = element("div", { hidden: true });
  parent.append(trouble, element("div", { class: "toolbar" }, headline, element("label", {}, follow, " newest step"),
    element("a", { href: `plan/${encodeURIComponent(id)}`, target: "_blank", rel: "noopener" }, "the plan as a page, with memory")), body);
  const timeline = new Timeline(body, signal);
  repeat(LOOK_EVERY_SECONDS, signal, async () => {
    if (timeline.trace && !follow.checked) return;
    const trace = new Trace(await get("GetTrace", { job_id: id }, signal));
    trouble.replaceChildren();
    if (timeline.trace && timeline.trace.step === trace.step) return;
    body.hidden = false;
    timeline.show(trace);
    const [predicted, measured] = trace.lengths;
    setText(headline, `Step ${trace.step.toLocaleString("en")}: predicted ${secondsText(predicted)}, ` +
      `measured ${secondsText(measured)} (${differenceText(predicted, measured)})`);
  }, (error) => trouble.replaceChildren(notice(`${error.message}.`, "quiet")));
  return null;
}
