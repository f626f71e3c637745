// Lanes as they are drawn: a track for each stream in use, and the memory.
const deviceByName = new Map(plan.devices.map((device) => [device.name, device]));

class Lane {
  constructor(data) {
    this.kind = data.kind;
    this.devices = data.devices;
    this.device = deviceByName.get(data.devices[0].name);
    this.leftOut = data.left_out || data.instructions.length === 0;
    this.count = data.instructions.length;
    this.what = new Int32Array(this.count);
    this.microBatch = new Int32Array(this.count);
    this.start = new Float64Array(this.count); // seconds
    this.end = new Float64Array(this.count);
    const byStream = new Map();
    data.instructions.forEach(([what, microBatch, start, length], i) => {
      this.what[i] = what;
      this.microBatch[i] = microBatch;
      this.start[i] = start * plan.tick_seconds;
      this.end[i] = (start + length) * plan.tick_seconds;
      const stream = plan.whats[what].stream;
      if (!byStream.has(stream)) byStream.set(stream, []);
      byStream.get(stream).push(i);
    });
    // Of each track the numbers of its instructions, in their order.
    this.tracks = [...byStream].sort(([a], [b]) => a - b).map(([stream, items]) => ({ stream, items }));
    this.memory = data.memory.map(([at, activations, boundaries]) => ({ at: at * plan.tick_seconds, activations, boundaries }));
  }

  // Of a track, the place in it of the first instruction that ends after `seconds`; its length if none does.
  firstEndingAfter(track, seconds) {
    let low = 0, high = track.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[track.items[middle]] > seconds) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  memoryAt(seconds) {
    let low = 0, high = this.memory.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.memory[middle].at <= seconds) low = middle;
      else high = middle;
    }
    return this.memory[low];
  }

  hasMemory() {
    return this.memory.length > 0 && this.device !== undefined && this.device.memory !== undefined && this.device.peak > 0;
  }
  // Held all the time: what is reserved less what comes and goes.
  heldBytes() {
    return this.device.peak - this.device.memory.activations - this.device.memory.boundaries;
  }
}

// Rows of the timeline: a lane, drawn for one of its devices.
class Row {
  constructor(lane, device) {
    this.lane = lane;
    this.device = device; // {name, first_micro_batch}
    this.visible = false;
  }
  microBatch(i) {
    return this.lane.microBatch[i] < 0 ? -1 : this.lane.microBatch[i] + this.device.first_micro_batch;
  }
  // One instruction in words.
  describe(i) {
    const lane = this.lane, what = plan.whats[lane.what[i]];
    const parts = [what.kind];
    if (lane.microBatch[i] >= 0) parts.push(`micro-batch ${this.microBatch(i)}`);
    if (what.blocks) parts.push(`${what.blocks[1] - what.blocks[0] === 1 ? "block" : "blocks"} ${rangeText(what.blocks)}`);
    if (what.bytes > 0) parts.push(bytesText(what.bytes));
    parts.push(`${secondsText(lane.end[i] - lane.start[i])}, from ${secondsText(lane.start[i])} to ${secondsText(lane.end[i])}`);
    return parts.join(" · ");
  }
  describeMemory(seconds) {
    const lane = this.lane, now = lane.memoryAt(seconds), limit = lane.device.limit;
    return [`memory in use at ${secondsText(seconds)}: ${bytesText(lane.heldBytes() + now.activations + now.boundaries)}`,
      `activations ${bytesText(now.activations)}`, `boundaries ${bytesText(now.boundaries)}`,
      `reserved ${bytesText(lane.device.peak)}`, limit > 0 ? `limit ${bytesText(limit)}` : ""].filter(Boolean).join(" · ");
  }
}
