// A traced step as it is drawn: for each device the same instructions twice, as predicted and as measured.
import { differenceText, number, secondsText } from "./format.js";

// In the order of the legend; letters tell them apart where colours do not.
export const CLASSES = [
  ["forward", "forward", "F"], ["backward", "backward", "B"], ["input_gradient", "gradient of inputs", "I"],
  ["weight_gradient", "gradient of weights", "W"], ["recompute", "recompute", "R"], ["exchange", "exchange in a unit", "X"],
  ["update", "norm and update", "U"], ["sum", "sum", "Σ"], ["send", "send", "S"], ["receive", "receive", "V"],
  ["fetch", "fetch", "↓"], ["store", "store", "↑"], ["unspecified", "other", "?"],
].map(([id, name, letter]) => ({ id, name, letter }));
export const classById = new Map(CLASSES.map((known) => [known.id, known]));

const BEGINNINGS = [["forward", "forward"], ["backward", "backward"], ["input gradient", "input_gradient"],
  ["weight gradient", "weight_gradient"],
  ["recompute", "recompute"], ["send", "send"], ["receive", "receive"], ["reduce", "sum"], ["scatter", "sum"], ["gather parameters", "sum"],
  ["gather", "exchange"], ["join", "exchange"], ["norm", "update"], ["update", "update"], ["zero", "update"], ["fetch", "fetch"],
    ["store", "store"]];
const classOfKind = (kind) => (BEGINNINGS.find(([beginning]) => kind.startsWith(beginning)) || ["", "unspecified"])[1];

export const BANDS = ["predicted", "measured"];

export class TraceLane {
  constructor(message) {
    this.device = message.device;
    const instructions = message.instructions || [];
    this.instructions = instructions.map((one) => ({ kind: one.kind || "?", class: classOfKind(one.kind || "?"), stream: number(one.stream),
      microBatch: number(one.micro_batch) }));
    const column = (name) => Float64Array.from(instructions, (one) => number(one[name]));
    this.bands = BANDS.map((band) => ({ start: column(`${band}_start_seconds`), end: column(`${band}_end_seconds`) }));
    const byStream = new Map();
    this.instructions.forEach(({ stream }, i) => byStream.set(stream, [...(byStream.get(stream) || []), i]));
    // Of each stream in use its instructions in their order; what computes comes first.
    this.tracks = [...byStream].sort(([a], [b]) => a - b).map(([stream, items]) => ({ stream, items }));
  }

  // Of a track, the place in it of the first instruction that ends after `seconds` in a band; its length if none does.
  firstEndingAfter(track, band, seconds) {
    const { end } = this.bands[band];
    let low = 0, high = track.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[track.items[middle]] > seconds) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  lengthOf(band) {
    return this.bands[band].end.reduce((longest, end) => Math.max(longest, end), 0);
  }

  computingSeconds(band) {
    const { start, end } = this.bands[band];
    return this.tracks.filter((track) => track.stream === 0).flatMap((track) => track.items).reduce((sum, i) => sum + end[i] - start[i], 0);
  }

  describe(i) {
    const { kind, microBatch } = this.instructions[i];
    const took = this.bands.map(({ start, end }) => end[i] - start[i]);
    const times = this.bands.map(({ start, end },
      band) => `${BANDS[band]} ${secondsText(took[band])}, from ${secondsText(start[i])} to ${secondsText(end[i])}`);
    return [kind, microBatch >= 0 ? `micro-batch ${microBatch}` : "", ...times, differenceText(...took)].filter(Boolean).join(" · ");
  }
}

export class Trace {
  constructor(message) {
    this.step = number(message.step);
    this.lanes = (message.lanes || []).map((lane) => new TraceLane(lane));
    this.lengths = BANDS.map((_, band) => this.lanes.reduce((longest, lane) => Math.max(longest, lane.lengthOf(band)), 0));
    this.seconds = Math.max(...this.lengths);
  }

  // Of each class in use the time of all devices, predicted and measured.
  totals() {
    const sums = new Map();
    for (const lane of this.lanes)
      lane.instructions.forEach((instruction, i) => {
        const sum = sums.get(instruction.class) || { count: 0, seconds: [0, 0] };
        sum.count += 1;
        lane.bands.forEach(({ start, end }, band) => { sum.seconds[band] += end[i] - start[i]; });
        sums.set(instruction.class, sum);
      });
    return CLASSES.filter(({ id }) => sums.has(id)).map((known) => ({ ...known, ...sums.get(known.id) }));
  }
}
