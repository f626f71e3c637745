// A job's curves, and what its devices do.
import { Chart, ChartGroup } from "./chart.js";
import { deviceTable } from "./devices.js";
import { element } from "./dom.js";
import { StepTable } from "./step_table.js";
import { lossText, number, tokensText } from "./format.js";

// Middle of so many steps before and after, so that a slow one does not hide what the others do.
const AROUND = 2;

// Tokens a second of each step, kept up as steps come.
class Throughput {
  constructor(series) {
    Object.assign(this, { series, values: new Float64Array(0), upTo: 0, lastStep: 0 });
  }
  read() {
    const { columns, length } = this.series;
    if (this.values.length < columns.step.length) {
      const wider = new Float64Array(columns.step.length);
      wider.set(this.values);
      this.values = wider;
    }
    // Steps that were made anew come from further back than the last look.
    const same = this.upTo <= length && (this.upTo === 0 || columns.step[this.upTo - 1] === this.lastStep);
    for (let i = same ? Math.max(0, this.upTo - AROUND - 1) : 0; i < length; ++i) this.values[i] = this.at(i);
    this.upTo = length;
    this.lastStep = length > 0 ? columns.step[length - 1] : 0;
    return this.values;
  }
  at(i) {
    const { columns, length } = this.series, seconds = [];
    for (let j = Math.max(0, i - AROUND); j <= Math.min(length - 1, i + AROUND); ++j) seconds.push(columns.seconds[j]);
    const middle = seconds.sort((a, b) => a - b)[seconds.length >> 1];
    return middle > 0 ? columns.tokens[i] / middle : NaN;
  }
}

export function showOverview(parent, { watch }, signal) {
  const group = new ChartGroup(signal), { series } = watch, throughput = new Throughput(series);
  const column = (name) => () => ({ x: series.columns.step, y: series.columns[name], length: series.length });
  const predicted = () => number(((watch.job || {}).plan || {}).predicted_tokens_per_second);
  const charts = [
    new Chart(group, "loss", () => ({ ...column("loss")(), points: series.validations.map(({ step, loss }) => ({ x: step, y: loss })) }),
      lossText),
    new Chart(group, "tokens/s", () => ({ ...column("tokens")(), y: throughput.read(), level: { y: predicted(), name: "predicted" } }),
      tokensText),
    new Chart(group, "gradient norm", column("norm"), lossText),
    new Chart(group, "learning rate", column("rate"), (value) => value.toExponential(2)),
  ];
  const whole = element("button", { type: "button", hidden: true, click: () => group.setRange(0, 0) }, "All steps");
  const devices = deviceTable(), steps = new StepTable(series);
  parent.append(element("div", { class: "charts" }, ...charts.map((chart) => chart.element)),
    element("p", { class: "quiet" },
      "Point at a step, drag to zoom, double-click for all; with the keyboard arrows, + and −, 0. Dots are validations; " +
      "the dashed line is what was predicted. ", whole),
    devices.element, steps.element);
  return (job) => {
    group.redraw();
    whole.hidden = group.from === null;
    devices.update(job.plan);
    steps.update();
  };
}
