// The newest steps in figures: what the charts show, to read, to copy and for those who do not see charts.
import { cell, element, headRow } from "./dom.js";
import { lossText, secondsText } from "./format.js";

const MOST_ROWS = 1000;
const COLUMNS = ["step", "loss", "gradient norm", "learning rate", "took", "validation"];

export class StepTable {
  constructor(series) {
    this.series = series;
    this.body = element("tbody");
    this.element = element("details", { class: "steps", toggle: () => this.update() }, element("summary", {}, "Steps as a table"),
      element("div", { class: "steps-box", tabindex: 0, role: "region", "aria-label": "Steps" },
        element("table", { class: "steps" }, headRow(COLUMNS, new Set(COLUMNS)), this.body)));
    this.rows = []; // {step, loss, took, validation, row}, newest first, as `body` has them
  }

  update() {
    if (!this.element.open) return;
    const { columns, length, validations } = this.series, validated = new Map(validations.map(({ step, loss }) => [step, loss]));
    const known = new Map(this.rows.map((one) => [one.step, one]));
    this.rows = [];
    for (let i = length - 1; i >= Math.max(0, length - MOST_ROWS); --i) {
      const step = columns.step[i], loss = columns.loss[i], took = columns.seconds[i], validation = validated.get(step),
        kept = known.get(step);
      const same = kept && kept.loss === loss && kept.took === took && kept.validation === validation;
      this.rows.push(same ? kept : { step, loss, took, validation, row: this.rowOf(i, validation) });
    }
    const rows = this.rows.map((one) => one.row), kept = new Set(rows);
    for (const row of [...this.body.rows]) if (!kept.has(row)) row.remove();
    rows.forEach((row, i) => { if (this.body.rows[i] !== row) this.body.insertBefore(row, this.body.rows[i] || null); });
  }

  rowOf(i, validation) {
    const { columns } = this.series;
    const texts = [String(columns.step[i]), lossText(columns.loss[i]), lossText(columns.norm[i]), columns.rate[i].toExponential(2),
      secondsText(columns.seconds[i]),
      validation === undefined ? "" : lossText(validation)];
    return element("tr", {}, ...texts.map((text, column) => cell(COLUMNS[column], text, "number")));
  }
}
