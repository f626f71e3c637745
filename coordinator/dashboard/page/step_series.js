// The steps of a job in columns, in their order: each once, whatever comes again.
import { number } from "./format.js";

const COLUMNS = {
  step: (step) => number(step.step), loss: (step) => number(step.loss), norm: (step) => number(step.gradient_norm),
  rate: (step) => number(step.learning_rate), seconds: (step) => number(step.step_seconds), tokens: (step) => number(step.tokens),
};

export class StepSeries {
  constructor() {
    this.clear();
  }

  clear() {
    this.length = 0;
    this.columns = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, new Float64Array(1024)]));
    this.validations = []; // {step, loss}, ascending
  }

  last() {
    return this.length > 0 ? this.columns.step[this.length - 1] : 0;
  }

  // A step that an attempt makes anew takes the place of the one before, and of all after that. False if steps are missing before it.
  add(step) {
    const at = this.firstFrom(number(step.step));
    if (at < this.length) this.validations = this.validations.filter((one) => one.step < number(step.step));
    const follows = at === 0 || this.columns.step[at - 1] === number(step.step) - 1;
    if (at === this.columns.step.length)
      for (const name of Object.keys(COLUMNS)) {
        const wider = new Float64Array(2 * at);
        wider.set(this.columns[name]);
        this.columns[name] = wider;
      }
    for (const [name, valueOf] of Object.entries(COLUMNS)) this.columns[name][at] = valueOf(step);
    this.length = at + 1;
    return follows;
  }

  addValidation(validation) {
    const step = number(validation.step);
    this.validations = this.validations.filter((one) => one.step < step);
    this.validations.push({ step, loss: number(validation.loss) });
  }

  // The place of the first step that is not before `step`.
  firstFrom(step) {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.columns.step[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
