// Which view is shown: the address after the # says so, and everything can be reached by a link.
import { keepAsking } from "./connection.js";
import { byId, element } from "./dom.js";
import { listenToKeys } from "./keys.js";
import { beginTheme } from "./theme.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as links from "./links.js";
import * as nodes from "./nodes.js";
import * as submit from "./submit.js";

// Each has show(parent, parameters, signal), which may answer with a function that takes other parameters of what is shown already.
const VIEWS = { jobs, job, nodes, links, submit };
const TITLES = { jobs: "Jobs", nodes: "Nodes", links: "Links", submit: "Submit" };

function placeOf(hash) {
  const parts = hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  const view = parts[0] === "jobs" && parts.length > 1 ? "job" : parts[0] || "jobs";
  return { view, parameters: parts.slice(1) };
}

let shown = null; // {view, subject, ending, change}

function showNothing(view) {
  byId("main").append(element("h1", {}, "There is no such view"), element("p", {}, `“${view}”; there are `,
    ...Object.keys(TITLES).flatMap((name, i) => [i > 0 ? ", " : "", element("a", { href: `#/${name}` }, TITLES[name])])));
}

function go() {
  if (location.hash === "#main") return;
  const { view, parameters } = placeOf(location.hash);
  const subject = view === "job" ? parameters[0] : "";
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === (view === "job" ? "jobs" : view)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown && shown.view === view && shown.subject === subject && shown.change) return shown.change(parameters);
  const first = shown === null;
  if (shown) shown.ending.abort();
  byId("main").replaceChildren();
  byId("tip").hidden = true;
  document.title = `${TITLES[view] || subject || view} · Medley`;
  const ending = new AbortController();
  shown = { view, subject, ending, change: null };
  if (VIEWS[view]) shown.change = VIEWS[view].show(byId("main"), parameters, ending.signal) || null;
  else showNothing(view);
  window.scrollTo(0, 0);
  if (!first) byId("main").focus({ preventScroll: true });
}

beginTheme();
listenToKeys();
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
window.addEventListener("hashchange", go);
go();
keepAsking();
