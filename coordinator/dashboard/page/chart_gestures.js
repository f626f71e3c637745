// How charts are pointed at and moved in.

// Pointing shows a step, dragging zooms to a range, a double click shows all; with the keyboard arrows go from step to step.
export function listenToChart(chart) {
  const { canvas, group } = chart;
  let begun = null;
  const stepAt = (event) => {
    const box = canvas.getBoundingClientRect(), { from, to } = chart.seen;
    const left = chart.xOf(from), right = chart.xOf(to);
    return Math.max(from, Math.min(to, from + ((event.clientX - box.left - left) / (right - left)) * (to - from)));
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") begun = stepAt(event);
    group.setCursor(Math.round(stepAt(event)));
  });
  canvas.addEventListener("pointermove", (event) => group.setCursor(Math.round(stepAt(event))));
  canvas.addEventListener("pointerleave", () => group.setCursor(null));
  window.addEventListener("pointerup", (event) => {
    if (begun === null || !chart.seen) return;
    const ends = [begun, stepAt(event)].sort((a, b) => a - b);
    begun = null;
    if (chart.xOf(ends[1]) - chart.xOf(ends[0]) > 8) group.setRange(...ends);
  }, { signal: group.signal });
  canvas.addEventListener("dblclick", () => group.setRange(0, 0));
  canvas.addEventListener("blur", () => group.setCursor(null));
  canvas.addEventListener("keydown", (event) => onKey(chart, event));
}

function onKey(chart, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !chart.data || chart.data.length === 0) return;
  const { group } = chart, { x, length } = chart.data, { from, to } = chart.seen;
  const at = group.cursor === null ? length - 1 : Math.min(length - 1, chart.placeOf(group.cursor)),
    far = Math.max(1, Math.round(length / 20));
  const go = (place) => group.setCursor(x[Math.max(0, Math.min(length - 1, place))]);
  const zoom = (factor) => {
    const middle = Math.max(from, Math.min(to, x[at])), whole = x[length - 1] - x[0];
    if ((to - from) / factor >= whole) group.setRange(0, 0);
    else group.setRange(Math.max(x[0], middle - (middle - from) / factor), Math.min(x[length - 1], middle + (to - middle) / factor));
  };
  const actions = {
    ArrowLeft: () => go(at - (event.shiftKey ? far : 1)), ArrowRight: () => go(at + (event.shiftKey ? far : 1)), Home: () => go(0),
    End: () => go(length - 1), "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: () => group.setRange(0, 0),
    Escape: () => group.setCursor(null),
  };
  if (!actions[event.key]) return;
  actions[event.key]();
  event.preventDefault();
}
