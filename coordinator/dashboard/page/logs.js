// What happened to a job, as it happens.
import { get } from "./api.js";
import { repeat } from "./connection.js";
import { element, notice, setText } from "./dom.js";
import { countText, momentText, number } from "./format.js";

const AT_FIRST = 1000; // newest lines
const MOST_SHOWN = 20000; // older ones are let go
const AT_ONCE = 5000;

function lineOf(line) {
  const time = momentText(number(line.at_seconds)), doubtful = /\b(fail|error|lost|doubtful|cannot|killed|died)/i.test(line.text || "");
  return element("div", { class: doubtful ? "log-line notable" : "log-line" },
    element("time", { title: momentText(number(line.at_seconds), true) }, time), element("span", { class: "source" }, line.source || ""),
    element("span", { class: "text" }, line.text || ""));
}

export function showLogs(parent, { id }, signal) {
  let last = 0, lines = 0;
  const box = element("div", { class: "log", role: "log", tabindex: 0, "aria-label": "Log lines", "aria-live": "off" });
  const follow = element("input", { type: "checkbox", checked: true });
  const filter = element("input", { type: "search", placeholder: "Filter lines", "aria-label": "Filter lines", "data-filter": true,
    input: () => sift(box.children) });
  const count = element("span", { class: "quiet" }), trouble = element("div", { role: "alert" });
  parent.append(element("div", { class: "toolbar" }, filter, element("label", {}, follow, " follow"), count), trouble, box);

  function sift(some) {
    const text = filter.value.trim().toLowerCase();
    for (const line of some) line.hidden = text !== "" && !line.textContent.toLowerCase().includes(text);
  }
  box.addEventListener("scroll", () => {
    if (box.scrollTop + box.clientHeight < box.scrollHeight - 40 && box.matches(":hover, :focus")) follow.checked = false;
  });
  repeat(2, signal, async () => {
    const answer = await get("ListLogs", { job_id: id, after_line: last, limit: last === 0 ? AT_FIRST : AT_ONCE }, signal);
    trouble.replaceChildren();
    const fresh = (answer.lines || []).filter((line) => number(line.number) > last);
    if (fresh.length === 0) return;
    if (last === 0 && number(fresh[0].number) > 1) box.append(element("div", { class: "log-line quiet" }, "older lines: medley logs ", id));
    last = number(fresh[fresh.length - 1].number);
    const made = fresh.map(lineOf);
    sift(made);
    box.append(...made);
    lines += made.length;
    while (box.childElementCount > MOST_SHOWN) box.firstChild.remove();
    setText(count, countText(lines, "line", "lines"));
    if (follow.checked) box.scrollTop = box.scrollHeight;
  }, (error) => trouble.replaceChildren(notice(error.message, "error")));
  return null;
}
