// A question with its answers, and what is said of what was done.
import { Unreachable } from "./api.js";
import { byId, element, notice } from "./dom.js";

// Said aloud, and shown for a while.
export function say(text) {
  const line = element("p", {}, text);
  byId("said").append(line);
  setTimeout(() => line.remove(), 8000);
}

// Asks with `title` and `text`, does `work(choices)` at `verb`, and stays open with what went wrong. `options`: {name: label} of boxes to
// tick.
export function ask({ title, text, verb, danger = false, options = {}, work }) {
  const boxes = Object.entries(options).map(([name, label]) => {
    const box = element("input", { type: "checkbox", name });
    return { name, box, element: element("label", { class: "option" }, box, " ", label) };
  });
  const trouble = element("div"), go = element("button", { type: "submit", class: danger ? "danger" : "main", value: "go" }, verb);
  const form = element("form", { method: "dialog" }, element("h2", { id: "dialog-heading" }, title), element("p", {}, text),
    ...boxes.map((one) => one.element),
    trouble, element("div", { class: "buttons" }, element("button", { type: "button", click: () => dialog.close() }, "Back"), go));
  const dialog = element("dialog", { "aria-labelledby": "dialog-heading" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    trouble.replaceChildren();
    try {
      const said = await work(Object.fromEntries(boxes.map(({ name, box }) => [name, box.checked])));
      dialog.close();
      if (said) say(said);
    } catch (error) {
      trouble.replaceChildren(notice(error instanceof Unreachable ? `${error.message}; it may have been done nevertheless` : error.message,
        "error"));
    }
    go.disabled = false;
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  go.focus();
}
