// Elements. Every text of data is set as text, never as markup.

export const byId = (id) => document.getElementById(id);

// An element with attributes (a function is a listener) and children, which are elements or texts; those that are null are left out.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// Sets a text only where it changed, so that a selection in it survives.
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// A text; of one that fills a page, its beginning and a button for all.
export function words(text, most = 420) {
  if (text.length <= most) return document.createTextNode(text);
  const made = element("span", {}, `${text.slice(0, most - 60)}… `);
  made.append(element("button", { type: "button", class: "more", click: () => { made.textContent = text; } }, "all of it"));
  return made;
}

// `label` stands before the content where a table is shown as a list, on a telephone.
export function cell(label, content, style = null) {
  return element("td", { "data-label": label, class: style }, ...(Array.isArray(content) ? content : [content]));
}

export function headRow(names, numbers = new Set()) {
  return element("thead", {}, element("tr", {},
    ...names.map((name) => element("th", { scope: "col", class: numbers.has(name) ? "number" : null }, name))));
}

// A bar of parts, each [colour, value]; full at `whole`.
export function meter(parts, whole) {
  const bar = element("div", { class: "meter", "aria-hidden": "true" });
  for (const [color, value] of parts) {
    const part = element("i");
    part.style.width = `${whole > 0 ? Math.max(0, Math.min(100, (100 * value) / whole)) : 0}%`;
    part.style.background = `var(--${color})`;
    bar.append(part);
  }
  return bar;
}

// What a colour stands beside the name of.
export function swatch(color) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = `var(--${color})`;
  return made;
}

// Names and values, shown as figures; update(values) changes their texts in place. A value of null hides its figure.
export function figures(names) {
  const values = names.map(() => element("dd"));
  const boxes = names.map((name, i) => element("div", {}, element("dt", {}, name), values[i]));
  return {
    element: element("dl", { class: "figures" }, ...boxes),
    update(texts) {
      texts.forEach((text, i) => {
        boxes[i].hidden = text === null || text === "";
        setText(values[i], text || "");
      });
    },
  };
}

export const notice = (text, kind = "warning") => element("p", { class: kind, role: kind === "error" ? "alert" : null }, text);
