// The head of the page, the reasons, other plans, and what the prediction was made from.
function showHead() {
  document.title = plan.title ? `${plan.title}: plan` : "Plan";
  byId("title").textContent = plan.title || "Plan";
  byId("description").append(words(plan.description));
  const emulated = plan.devices.filter((device) => device.used && device.emulated).map((device) => device.name);
  if (emulated.length > 0) {
    byId("warning").append("Emulated, computing nothing, so that only the times mean anything: ", words(emulated.join(", ")));
    byId("warning").hidden = false;
  }
  const used = plan.devices.filter((device) => device.used).length;
  const figures = [
    ["predicted step", secondsText(plan.step_seconds)],
    ["tokens a second", plan.tokens_per_second.toLocaleString("en", { maximumFractionDigits: plan.tokens_per_second < 100 ? 1 : 0 })],
    ["time of devices not computing", percentText(plan.bubble_share, 1)],
    ["devices in use", `${used} of ${plan.devices.length}`],
    ["price", plan.price, "words"],
    ["how good", plan.quality, "words"],
    ["how sure", plan.error, "words"],
  ];
  for (const [name, value, style] of figures) {
    if (!value) continue;
    byId("figures").append(element("div", {}, element("dt", {}, name), element("dd", { class: style || null }, value)));
  }
}

const kindText = (kind) => `${kind.kind}: ${kind.used} of ${kind.devices} in use` + (kind.used === 0 ? ""
  : `, ${percentText(kind.work_share)} of the work, busy ${percentText(kind.busy_share)} of the time, at most ${percentText(kind.memory_share)} of the memory`);

const helpText = (help) => `${help.change}: ${secondsText(help.step_seconds)} a step, ${percentText(1 - help.step_seconds / plan.step_seconds, 1)} less`
  + (help.planned_anew ? ", with another plan" : "");

function showReasons() {
  const which = /under 1f1b$/.test(plan.quality) ? " under 1f1b"
    : /named schedules?$/.test(plan.quality) ? " with a named schedule" : "";
  const bound = plan.lower_bound_seconds > 0
    ? `No plan${which} is predicted to be faster than ${secondsText(plan.lower_bound_seconds)} a step.` : "";
  const searched = plan.simulated_plans > 0 ? `${Number(plan.simulated_plans).toLocaleString("en")} plans were simulated.` : "";
  const proof = [plan.quality, bound, searched].filter(Boolean).join(". ").replace(/\.\. /g, ". ");
  const reasons = [["Bottleneck", plan.bottleneck], ["Proof", proof],
    ["Fitting", plan.fitting], ["Order", plan.orders], ["Sums", plan.reductions], ["Exchanges", plan.exchanges]];
  for (const [name, text] of reasons)
    if (text) byId("why").append(element("dt", {}, name), element("dd", {}, words(text)));
  const others = plan.rejected.filter((other) => other.step_seconds > 0)
    .map((other) => `${other.kind} ${secondsText(other.step_seconds)} (${timesText(other.step_seconds)})`);
  if (others.length > 0)
    byId("why").append(element("dt", {}, "Instead"), element("dd", {}, `${others.join(", ")}; `,
      element("a", { href: "#instead-heading" }, "why not")));
  if (plan.kinds.length > 1) byId("why").append(element("dt", {}, "Kinds"), element("dd", {}, words(plan.kinds.map(kindText).join("; "))));
  if (plan.helps.length > 0)
    byId("why").append(element("dt", {}, "Would help"), element("dd", {}, words(plan.helps.map(helpText).join("; "))));
  byId("explanation").textContent = plan.explanation;
  if (!plan.explanation) byId("explanation").closest("details").hidden = true;
}

const timesText = (seconds) => `× ${(seconds / plan.step_seconds).toFixed(seconds < 10 * plan.step_seconds ? 2 : 0)}`;

function cell(label, content, style = null) {
  return element("td", { "data-label": label, class: style }, ...(Array.isArray(content) ? content : [content]));
}

function meter(parts, whole) {
  const bar = element("div", { class: "meter", "aria-hidden": "true" });
  for (const [color, value] of parts) {
    const part = element("i");
    part.style.width = `${whole > 0 ? Math.max(0, Math.min(100, (100 * value) / whole)) : 0}%`;
    part.style.background = `var(--${color})`;
    bar.append(part);
  }
  return bar;
}

function showInstead() {
  byId("not-compared").hidden = plan.compared || plan.rejected.length > 0;
  if (plan.rejected.length === 0) {
    byId("instead").hidden = true;
    if (plan.compared) byId("instead").closest("section").hidden = true;
    return;
  }
  // A bar is full at four times this plan.
  const longest = Math.min(4 * plan.step_seconds, Math.max(plan.step_seconds, ...plan.rejected.map((other) => other.step_seconds)));
  const length = (seconds) => (seconds === plan.step_seconds ? secondsText(seconds) : `${secondsText(seconds)} (${timesText(seconds)})`);
  const row = (kind, seconds, description, why, color) => element("tr", {},
    cell("plan", kind),
    cell("step", seconds > 0 ? element("div", { class: "line" }, length(seconds), meter([[color, seconds]], longest)) : "none fits"),
    cell("how", seconds > 0 ? words(description) : "", "words"), cell("why not", words(why), "words"));
  byId("instead").append(
    element("thead", {}, element("tr", {}, ...["plan", "step", "how", "why not"].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, row("this one", plan.step_seconds, plan.description, "", "accent"),
      ...plan.rejected.map((other) => row(other.kind, other.step_seconds, other.description, other.why, "send"))));
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS(byId("price-chart").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Plans from the fastest to the cheapest, each a dot: the time of a step to the right, the price of an hour upwards.
function drawPrices(plans) {
  const width = 640, height = 220, left = 12, right = 12, top = 24, bottom = 30;
  const most = (key) => Math.max(...plans.map((other) => other[key]));
  const x = (other) => left + (width - left - right) * (other.step_seconds / most("step_seconds"));
  const y = (other) => height - bottom - (height - top - bottom) * (other.price_per_hour / (most("price_per_hour") || 1));
  const steps = plans.map((other, i) => (i === 0 ? `M${x(other)},${y(other)}` : `H${x(other)}V${y(other)}`)).join("");
  const dots = plans.map((other) => svg("circle", { cx: x(other), cy: y(other), r: other.chosen ? 6 : 4, class: other.chosen ? "chosen" : "" },
    svg("title", {}, `${secondsText(other.step_seconds)} a step, ${other.price} an hour`)));
  byId("price-chart").setAttribute("viewBox", `0 0 ${width} ${height}`);
  byId("price-chart").append(svg("path", { d: `M${left},${top}V${height - bottom}H${width - right}` }), svg("path", { d: steps }), ...dots,
    svg("text", { x: left, y: top - 8 }, "price of an hour"),
    svg("text", { x: width - right, y: height - 8, "text-anchor": "end" }, "time of a step"));
}

function showPrice() {
  if (plan.pareto.length === 0) {
    byId("price").closest("section").hidden = true;
    return;
  }
  byId("price-note").textContent = plan.pareto_complete ? "No other plan is both faster and as cheap as one of these."
    : "There may be other plans, faster or cheaper.";
  if (plan.pareto.length > 1) drawPrices(plan.pareto);
  else byId("price-chart").style.display = "none";
  const names = ["devices", "step", "an hour", "job takes", "job costs", "bound by"];
  const row = (other) => element("tr", { class: other.chosen ? "chosen" : null },
    cell(names[0], words(`${other.devices.map(([kind, count]) => `${kind} × ${count}`).join(" + ")}${other.chosen ? " (this one)" : ""}`), "words"),
    cell(names[1], secondsText(other.step_seconds), "number"), cell(names[2], other.price, "number"),
    cell(names[3], other.duration, "number"), cell(names[4], other.cost, "number"), cell(names[5], words(other.bottleneck), "words"));
  byId("price").append(
    element("thead", {}, element("tr", {}, ...names.map((name, i) => element("th", { scope: "col", class: i > 0 && i < 5 ? "number" : null }, name)))),
    element("tbody", {}, ...plan.pareto.map(row)));
}

function showProfiles() {
  if (plan.profiles.length === 0) byId("profiles").closest("section").hidden = true;
  for (const use of plan.profiles) {
    const facts = [use.share, use.measured_at !== "-" ? `measured ${use.measured_at} UTC` : "", use.provenance,
      use.spread > 0 ? `spread ${percentText(use.spread, 1)}` : "", use.correction];
    const item = element("li", {}, element("strong", {}, use.kind), ` ${facts.filter(Boolean).join("; ")}`);
    if (use.doubts.length > 0) item.append(element("p", { class: "warning" }, `Doubtful: ${use.doubts.join(" ")}`));
    byId("profiles").append(item);
  }
  byId("footer").textContent = `medley ${plan.version}. Times and memory are predictions.`;
}
