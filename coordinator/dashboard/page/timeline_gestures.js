// How the timeline is moved, stretched and walked through: with pointers, a wheel and keys.
import { byId } from "./dom.js";
import { secondsAt, trackHeight, trackTop } from "./timeline_drawing.js";

// What of a row is under the pointer: an instruction, or -1.
function instructionAt(timeline, row, event) {
  const { lane } = row, { view } = timeline, box = row.canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top, seconds = secondsAt(view, x, box.width);
  for (let band = 0; band < 2; ++band)
    for (let place = 0; place < lane.tracks.length; ++place) {
      const top = trackTop(lane, band, place);
      if (y < top - 1 || y > top + trackHeight(place) + 1) continue;
      const { items } = lane.tracks[place], at = lane.firstEndingAfter(lane.tracks[place], band, seconds),
        { start, end } = lane.bands[band];
      const next = at < items.length ? items[at] : -1, last = at > 0 ? items[at - 1] : -1;
      if (next >= 0 && start[next] <= secondsAt(view, x + 3, box.width)) return next; // there, or within three pixels
      if (last >= 0 && end[last] >= secondsAt(view, x - 3, box.width)) return last;
    }
  return -1;
}

function showTip(timeline, row, event) {
  const tip = byId("tip"), i = instructionAt(timeline, row, event);
  tip.hidden = i < 0;
  if (tip.hidden) return;
  tip.textContent = `${row.lane.device}\n${row.lane.describe(i).split(" · ").join("\n")}`;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 4))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}

// One pointer moves the view, two stretch it.
class Gesture {
  constructor(timeline) {
    Object.assign(this, { timeline, pointers: new Map() });
    this.begin();
  }
  begin() {
    const { from, to } = this.timeline.view;
    this.was = { from, to, xs: [...this.pointers.values()].map((place) => place.x) };
  }
  goOn(box) {
    const xs = [...this.pointers.values()].map((place) => place.x), { was } = this, length = was.to - was.from;
    if (xs.length === 1) {
      const by = ((was.xs[0] - xs[0]) / box.width) * length;
      return this.timeline.setView(was.from + by, was.to + by);
    }
    const factor = Math.max(10, Math.abs(xs[1] - xs[0])) / Math.max(10, Math.abs(was.xs[1] - was.xs[0]));
    const middle = was.from + (((was.xs[0] + was.xs[1]) / 2 - box.left) / box.width) * length,
      at = ((xs[0] + xs[1]) / 2 - box.left) / box.width;
    return this.timeline.setView(middle - (at * length) / factor, middle + ((1 - at) * length) / factor);
  }
}

function listenToPointers(timeline, row, gesture) {
  const { chart } = row;
  chart.addEventListener("pointerdown", (event) => {
    chart.setPointerCapture(event.pointerId);
    gesture.pointers.set(event.pointerId, { x: event.clientX, start: event.clientX });
    gesture.begin();
  });
  chart.addEventListener("pointermove", (event) => {
    const place = gesture.pointers.get(event.pointerId);
    if (!place) {
      if (event.pointerType !== "touch") showTip(timeline, row, event);
      return;
    }
    place.x = event.clientX;
    place.moved = place.moved || Math.abs(place.x - place.start) > 4;
    if (!place.moved) return;
    byId("tip").hidden = true;
    gesture.goOn(row.canvas.getBoundingClientRect());
  });
  const end = (event) => {
    const place = gesture.pointers.get(event.pointerId);
    gesture.pointers.delete(event.pointerId);
    gesture.begin();
    if (event.type === "pointerup" && place && !place.moved) timeline.select(row, instructionAt(timeline, row, event));
  };
  chart.addEventListener("pointerup", end);
  chart.addEventListener("pointercancel", end);
  chart.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  chart.addEventListener("wheel", (event) => {
    const box = row.canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) timeline.zoom(1.002 ** -event.deltaY, secondsAt(timeline.view, event.clientX - box.left,
      box.width));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.pan((event.deltaX || event.deltaY) / box.width);
    else return;
    event.preventDefault();
  }, { passive: false });
}

// Where the selected instruction of a row is: its track and its place in that.
function placeOf(timeline, row) {
  const { lane } = row, { selection, view } = timeline;
  if (selection.row !== row) return { place: 0, at: Math.min(lane.firstEndingAfter(lane.tracks[0], 1, view.from),
    lane.tracks[0].items.length - 1) };
  const place = lane.tracks.findIndex((track) => track.stream === lane.instructions[selection.instruction].stream);
  return { place, at: lane.tracks[place].items.indexOf(selection.instruction) };
}

// To the track above or below, of the next device behind the last one.
function moveAcross(timeline, row, by) {
  const { place, at } = placeOf(timeline, row), seconds = row.lane.bands[1].start[row.lane.tracks[place].items[at]];
  const other = row.lane.tracks[place + by] ? row : timeline.rows[timeline.rows.indexOf(row) + by];
  if (!other) return;
  const tracks = other.lane.tracks, track = other === row ? tracks[place + by] : by > 0 ? tracks[0] : tracks[tracks.length - 1];
  other.chart.focus();
  timeline.selectAndShow(other, track.items[Math.min(other.lane.firstEndingAfter(track, 1, seconds), track.items.length - 1)]);
}

function onKey(timeline, row, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { place, at } = placeOf(timeline, row), { items } = row.lane.tracks[place], { start, end } = row.lane.bands[1];
  const { view } = timeline, middle = Math.min(Math.max((start[items[at]] + end[items[at]]) / 2, view.from), view.to);
  const go = (to) => timeline.selectAndShow(row, items[Math.max(0, Math.min(items.length - 1, to))]),
    begun = timeline.selection.row === row;
  const actions = {
    ArrowLeft: () => (event.shiftKey ? timeline.pan(-0.2) : go(at - 1)),
      ArrowRight: () => (event.shiftKey ? timeline.pan(0.2) : go(begun ? at + 1 : at)),
    ArrowUp: () => moveAcross(timeline, row, -1), ArrowDown: () => moveAcross(timeline, row, 1), Home: () => go(0),
      End: () => go(items.length - 1),
    "+": () => timeline.zoom(1.6, middle), "=": () => timeline.zoom(1.6, middle), "-": () => timeline.zoom(1 / 1.6, middle),
    0: () => timeline.setView(0, timeline.trace.seconds), Escape: () => timeline.select(null, -1),
  };
  if (!actions[event.key]) return;
  actions[event.key]();
  event.preventDefault();
}

export function listenToRow(timeline, row) {
  timeline.gesture = timeline.gesture || new Gesture(timeline);
  listenToPointers(timeline, row, timeline.gesture);
  row.chart.addEventListener("keydown", (event) => onKey(timeline, row, event));
  row.chart.addEventListener("focus", () => { for (const other of timeline.rows) other.chart.tabIndex = other === row ? 0 : -1; });
}
