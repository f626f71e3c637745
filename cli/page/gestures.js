// Pointers and keys on the rows.
const pointers = new Map(); // that are down, by id: where they are
let gesture = null; // the view and the pointers as the gesture began

function select(row, instruction) {
  selection.row = row;
  selection.instruction = instruction;
  byId("selection").textContent = row === null ? "" : `${row.device.name}: ${row.describe(instruction)}` +
    (showsMemory(row.lane) ? ` · ${row.describeMemory(row.lane.start[instruction])}` : "");
  redraw();
}

// What is where a pointer is: the moment, the track and the instruction, -1: none, or that it is in the memory strip.
function lookAt(row, event) {
  const box = row.canvas.getBoundingClientRect(), lane = row.lane;
  const x = event.clientX - box.left, y = event.clientY - box.top, seconds = secondsAt(x, box.width);
  if (y > tracksHeight(lane)) return { seconds, instruction: -1, inMemory: showsMemory(lane) };
  let place = lane.tracks.findIndex((_, i) => y < trackTop(i) + trackHeight(i) + TRACK.gap);
  if (place < 0) place = lane.tracks.length - 1;
  // What is there, or else within three pixels.
  const items = lane.tracks[place].items, at = lane.firstEndingAfter(lane.tracks[place], seconds);
  const next = at < items.length ? items[at] : -1, last = at > 0 ? items[at - 1] : -1;
  if (next >= 0 && lane.start[next] <= secondsAt(x + 3, box.width)) return { seconds, place, instruction: next };
  return { seconds, place, instruction: last >= 0 && lane.end[last] >= secondsAt(x - 3, box.width) ? last : -1 };
}

function wordsOf(row, found) {
  if (found.seconds < 0 || found.seconds > plan.step_seconds) return "";
  if (found.inMemory) return row.describeMemory(found.seconds);
  if (found.instruction >= 0) return row.describe(found.instruction);
  return found.place === 0 ? `waiting at ${secondsText(found.seconds)}` : "";
}

function showTip(row, event) {
  const tip = byId("tip"), words = wordsOf(row, lookAt(row, event));
  tip.hidden = words === "";
  if (tip.hidden) return;
  tip.textContent = `${row.device.name}\n${words.split(" · ").join("\n")}`;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 4))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}

function beginGesture() {
  const places = [...pointers.values()];
  gesture = places.length === 0 ? null : { from: view.from, to: view.to, xs: places.map((place) => place.x) };
}

// One pointer moves the view, two stretch it.
function goOnWithGesture(box) {
  const xs = [...pointers.values()].map((place) => place.x), length = gesture.to - gesture.from;
  const was = (x) => gesture.from + ((x - box.left) / box.width) * length;
  if (xs.length === 1) {
    const by = ((gesture.xs[0] - xs[0]) / box.width) * length;
    setView(gesture.from + by, gesture.to + by);
  } else {
    const factor = Math.max(10, Math.abs(xs[1] - xs[0])) / Math.max(10, Math.abs(gesture.xs[1] - gesture.xs[0]));
    const middle = was((gesture.xs[0] + gesture.xs[1]) / 2), at = ((xs[0] + xs[1]) / 2 - box.left) / box.width;
    setView(middle - (at * length) / factor, middle + ((1 - at) * length) / factor);
  }
}

function listen(row) {
  const chart = row.chart;
  chart.addEventListener("pointerdown", (event) => {
    chart.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, start: event.clientX });
    if (event.pointerType === "touch") byId("tip").hidden = true;
    beginGesture();
  });
  chart.addEventListener("pointermove", (event) => {
    const place = pointers.get(event.pointerId);
    if (!place) {
      if (event.pointerType !== "touch") showTip(row, event);
      return;
    }
    place.x = event.clientX;
    place.moved = place.moved || Math.abs(place.x - place.start) > 4;
    if (!place.moved) return;
    byId("tip").hidden = true;
    byId("lanes").classList.add("dragging");
    goOnWithGesture(row.canvas.getBoundingClientRect());
  });
  const end = (event) => {
    const place = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    byId("lanes").classList.remove("dragging");
    beginGesture();
    if (event.type !== "pointerup" || !place || place.moved) return;
    const found = lookAt(row, event);
    if (found.instruction >= 0) select(row, found.instruction);
    else byId("selection").textContent = `${row.device.name}: ${wordsOf(row, found)}`;
  };
  chart.addEventListener("pointerup", end);
  chart.addEventListener("pointercancel", end);
  chart.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  chart.addEventListener("wheel", (event) => {
    const box = row.canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) zoom(1.002 ** -event.deltaY, secondsAt(event.clientX - box.left, box.width));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / box.width);
    else return;
    event.preventDefault();
  }, { passive: false });
  chart.addEventListener("keydown", (event) => onKey(row, event));
  chart.addEventListener("focus", () => {
    for (const other of rows) other.chart.tabIndex = other === row ? 0 : -1;
    if (selection.row !== row && chart.matches(":focus-visible")) select(row, firstInView(row));
  });
}

function firstInView(row) {
  const lane = row.lane, track = lane.tracks[0];
  return track.items[Math.min(lane.firstEndingAfter(track, view.from), track.items.length - 1)];
}

// Where the selected instruction of a row is: its track and its place in that.
function placeOf(row) {
  const lane = row.lane, i = selection.row === row ? selection.instruction : firstInView(row);
  const place = lane.tracks.findIndex((track) => track.stream === plan.whats[lane.what[i]].stream);
  return { place, at: lane.tracks[place].items.indexOf(i) };
}

function selectAndShow(row, i) {
  select(row, i);
  const { start, end } = { start: row.lane.start[i], end: row.lane.end[i] }, length = view.to - view.from;
  if (start < view.from) setView(start - length * 0.1, start + length * 0.9);
  else if (end > view.to) setView(end - length * 0.9, end + length * 0.1);
}

// To the track above or below, of the next device behind the last one.
function moveAcross(row, by) {
  const lane = row.lane, { place, at } = placeOf(row);
  const seconds = lane.start[lane.tracks[place].items[at]];
  const atSeconds = (of, track) => track.items[Math.min(of.firstEndingAfter(track, seconds), track.items.length - 1)];
  if (lane.tracks[place + by]) return selectAndShow(row, atSeconds(lane, lane.tracks[place + by]));
  const other = rows[rows.indexOf(row) + by];
  if (!other) return;
  other.chart.focus();
  other.element.scrollIntoView({ block: "nearest" });
  selectAndShow(other, atSeconds(other.lane, by > 0 ? other.lane.tracks[0] : other.lane.tracks[other.lane.tracks.length - 1]));
}

function onKey(row, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { place, at } = placeOf(row), items = row.lane.tracks[place].items;
  const i = items[at], middle = Math.min(Math.max((row.lane.start[i] + row.lane.end[i]) / 2, view.from), view.to);
  const go = (to) => selectAndShow(row, items[Math.max(0, Math.min(items.length - 1, to))]);
  const actions = {
    ArrowLeft: () => (event.shiftKey ? pan(-0.2) : go(at - 1)), ArrowRight: () => (event.shiftKey ? pan(0.2) : go(at + 1)),
    ArrowUp: () => moveAcross(row, -1), ArrowDown: () => moveAcross(row, 1), Home: () => go(0), End: () => go(items.length - 1),
    "+": () => zoom(1.6, middle), "=": () => zoom(1.6, middle), "-": () => zoom(1 / 1.6, middle), 0: () => setView(0, plan.step_seconds),
    Escape: () => select(null, -1),
  };
  if (!actions[event.key]) return;
  actions[event.key]();
  event.preventDefault();
}
