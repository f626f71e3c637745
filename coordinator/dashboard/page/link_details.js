// One link: what is known of it, and its times by message size.
import { cell, element, headRow } from "./dom.js";
import { bytesText, momentText, number, rateText, secondsText } from "./format.js";

const COLUMNS = ["message", "one way", "that is", "exchange and add", "that is"];

function pointRows(link) {
  const exchange = new Map((link.exchange || []).map((point) => [number(point.bytes), number(point.seconds)]));
  const sizes = [...new Set([...(link.transfer || []).map((point) => number(point.bytes)), ...exchange.keys()])].sort((a, b) => a - b);
  const transfer = new Map((link.transfer || []).map((point) => [number(point.bytes), number(point.seconds)]));
  const of = (times, bytes) => [times.has(bytes) ? secondsText(times.get(bytes)) : "",
    times.get(bytes) > 0 ? rateText(bytes / times.get(bytes)) : ""];
  return sizes.map((bytes) => element("tr", {}, cell("message", bytesText(bytes), "number"),
    ...[...of(transfer, bytes), ...of(exchange, bytes)].map((text, i) => cell(COLUMNS[i + 1], text, "number"))));
}

export function linkDetails(link, a, b) {
  const facts = [["latency", secondsText(number(link.latency_seconds))], ["bandwidth", rateText(number(link.bytes_per_second))],
    ["all-reduce", rateText(number(link.all_reduce_bytes_per_second))], ["transport", link.transport], ["kind", link.kind],
      ["class", link.link_class],
    ["measured", [momentText(number(link.measured_at_seconds), true), link.measured_between ? `between ${link.measured_between}`
      : ""].filter(Boolean).join(", ")],
    ["how", link.provenance]].filter(([, value]) => value);
  const rows = pointRows(link);
  return element("div", {}, element("h2", {}, `${a} – ${b}`),
    element("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    rows.length === 0 ? null : element("div", { class: "scroll" }, element("table", { class: "points" }, headRow(COLUMNS, new Set(COLUMNS)),
      element("tbody", {}, ...rows))));
}
