"""The dashboard in Chromium: what it shows of real jobs, what may be done there, and how it bears losses, roles, keys and small windows.

MEDLEY_PICTURES=DIR: pictures of the main views are written there, too."""
import json
import os
import re
import shutil
import ssl
import tempfile
import time
import unittest

import cluster
from browser import Browser, missing
from cluster import ClusterTest, fast_and_slow, program, route, run_command, unit, wait_for
from site_cluster import SiteCluster, WayIn

MARKUP = "<img src=x onerror=window.hurt=1>"
MANY = 1000
PHONE = (390, 844)
# Colours of texts and what they stand on.
READABLE = [("ink", "paper"), ("ink", "raised"), ("quiet", "paper"), ("quiet", "raised"), ("accent", "paper"), ("on-accent", "accent"),
            ("warning", "warning-paper"), ("danger", "paper"), ("danger", "raised"), ("good", "paper"), ("waiting", "paper"),
            ("sum", "paper")]
CONTRAST = """
const [names] = arguments, style = getComputedStyle(document.documentElement);
const light = (name) => {
  const hex = style.getPropertyValue(`--${name}`).trim().slice(1);
  const [r, g, b] = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
return names.map(([a, b]) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05));
"""
# How many colours a canvas has: an empty one has a single one.
COLOURS = """[...document.querySelectorAll(arguments[0])].map((canvas) => {
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
})"""
# What reaches beyond the window's right edge, unless it is within a box of its own that scrolls.
TOO_WIDE = """
const scrolls = (one) => one && (/auto|scroll|hidden/.test(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
return [...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one.parentElement))
  .map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`)
  .concat(document.documentElement.scrollWidth > innerWidth ? [`the page has ${document.documentElement.scrollWidth}`] : []);
"""

browser = None


def setUpModule():
    global browser
    if missing():
        raise unittest.SkipTest("there is no %s (Debian: chromium, chromium-driver)" % ", ".join(missing()))
    directory = tempfile.mkdtemp(prefix="browser.")
    unittest.addModuleCleanup(shutil.rmtree, directory, ignore_errors=True)
    browser = Browser(directory)
    unittest.addModuleCleanup(browser.close)


class PageTest(ClusterTest):
    """Nothing may complain in the console, and nothing but the page's own server be asked."""

    site = None  # "host:port" of what is looked at
    hosts = set()

    @classmethod
    def new_site(cls, **options):
        running = SiteCluster(tempfile.mkdtemp(prefix="cluster.", dir=cls.directory), **options)
        cls.addClassCleanup(running.kill_all)
        return running

    def setUp(self):
        browser.size(1280, 900)
        browser.scheme("light")

    def tearDown(self):
        self.assertEqual(browser.complaints(), [])
        outside = [url for url in browser.requests() if not any(url.startswith("http://%s/" % host) for host in PageTest.hosts)]
        self.assertEqual(outside, [])

    def visit(self, place, site=None):
        """Loads the page anew."""
        address = site or self.site
        PageTest.hosts.add(address)
        browser.open("about:blank")
        browser.open("http://%s/#/%s" % (address, place))
        browser.until_text("#connection", "live")
        browser.script("window.sameSince = true")

    def go(self, place):
        browser.script("location.hash = arguments[0]", "#/" + place)

    def assert_not_reloaded(self):
        self.assertTrue(browser.script("return window.sameSince === true"))

    def assert_unhurt(self):
        self.assertTrue(browser.script("return window.hurt === undefined && document.querySelector('main img, main script') === null"))

    def confirm(self, action, *ticks):
        """Presses a job's or node's button and the one that the question then has."""
        browser.click("main button", action)
        browser.find("dialog[open]")
        for label in ticks:
            browser.click("dialog label", label)
        browser.click("dialog button[type=submit]")
        browser.until("!document.querySelector('dialog')")

    def picture(self, name):
        """In dark and light, of what is shown now."""
        folder = os.environ.get("MEDLEY_PICTURES")
        if not folder:
            return
        os.makedirs(folder, exist_ok=True)
        for scheme in ("dark", "light"):
            browser.scheme(scheme)
            browser.until("document.documentElement.dataset.theme === arguments[0]", scheme)
            browser.until("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            browser.picture(os.path.join(folder, "%s-%s.png" % (name, scheme)))


class ViewsTest(PageTest):
    """A job that is done, one that failed and one that trains on two unlike devices."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, slow = fast_and_slow()
        cls.running = cls.new_site().start({"fast": [fast], "slow": [slow]})
        cls.site = cls.running.site
        cls.done = cls.running.submit(cls.spec("done", steps=30))
        cls.running.wait_for_state(cls.done, "done")
        missing_data = os.path.join(cls.directory, MARKUP + ".txt")
        cls.failed = cls.running.submit({**cls.spec("failed"), "data": {"train": missing_data, "format": "text"}})
        cls.running.wait_for_state(cls.failed, "failed")
        cls.live = cls.running.submit(cls.live_spec())
        cls.running.wait_for_step(cls.live, 5)

    @classmethod
    def live_spec(cls):
        """Long enough to train for as long as the tests look at it."""
        return {**cls.spec("live", steps=10_000_000), "batch": {"sequences": 32, "sequence_length": 32},
                "data": {"train": cls.data, "validation": cls.data, "format": "text"}, "validation": {"every_steps": 20, "batches": 1},
                "checkpoint": {"directory": os.path.join(cls.directory, "checkpoints"), "every_steps": 100, "keep": 1},
                "plan": {"units": [unit("fast/cpu0", 0, 3), unit("slow/cpu0", 3, 5)], "routes": [route([0, 1], 4, 8)]}}

    def figure(self, name):
        return browser.script("const found = [...document.querySelectorAll('.figures div')]"
                              ".find((one) => one.firstChild.textContent === arguments[0]);"
                              "return found ? found.lastChild.textContent : ''", name)

    def step_shown(self):
        return int(self.figure("step").split("/")[0].replace(",", "") or 0)

    def test_jobs_are_listed_counted_and_filtered(self):
        self.visit("jobs")
        for job, state in ((self.done, "done"), (self.failed, "failed"), (self.live, "running")):
            browser.until("[...document.querySelectorAll('table.jobs tr')].some((row) => row.innerText.includes(arguments[0]) && "
                          "row.querySelector('.state')?.textContent === arguments[1])", job, state)
        self.picture("jobs")
        browser.until_text(".chips", r"failed 1\b")
        browser.click(".chips button", "failed 1")
        browser.until("document.querySelectorAll('table.jobs tbody tr').length === 1")
        self.assertIn(self.failed, browser.text("table.jobs tbody"))
        browser.click(".chips button:first-child")
        browser.type("[data-filter]", "nothing has this")
        browser.until_text("main", "No job is like that")
        browser.type("[data-filter]", self.live)
        browser.until("document.querySelectorAll('table.jobs tbody tr').length === 1")
        shown = browser.text("table.jobs td.progress")
        browser.until("document.querySelector('table.jobs td.progress').innerText !== arguments[0]", shown,
                      what="progress of the list goes on")
        browser.click("table.jobs a", self.live)
        browser.until_text("h1", re.escape(self.live))
        self.assert_not_reloaded()

    def test_a_job_that_trains_is_shown_as_it_goes_on(self):
        self.visit("jobs/" + self.live)
        browser.until_text(".state", "running")
        browser.until_text("figure.chart .readout", r"step [\d,]+ · \d")
        begun = self.step_shown()
        wait_for("steps come by themselves", lambda: self.step_shown() > begun + 3)
        browser.until_text("figure.chart:nth-of-type(1) .readout", "validation")
        self.assertRegex(browser.text("figure.chart:nth-of-type(2) .readout"), r"predicted \d")
        self.assertRegex(self.figure("tokens/s"), r"^[\d,.]+$")
        for name in ("loss", "validation", "step takes", "predicted", "checkpoint"):
            wait_for(name + " is there", lambda: self.figure(name) != "")
        self.assertTrue(all(colours > 3 for colours in browser.script("return " + COLOURS, "figure.chart canvas")))
        self.assertEqual(browser.script("return document.querySelectorAll('section.devices tbody tr').length"), 2)
        self.assertRegex(browser.text("section.devices"), r"fast/cpu0[\s\S]*0–2[\s\S]*%[\s\S]*MiB[\s\S]*weights")
        browser.click("details.steps summary")
        browser.until("document.querySelectorAll('table.steps tbody tr').length > 5")
        browser.click("details.steps summary")
        self.picture("job")
        self.assert_not_reloaded()

    def test_charts_are_zoomed_and_walked_through(self):
        self.visit("jobs/" + self.live)
        browser.until_text("figure.chart .readout", r"step [\d,]+ · \d")
        wait_for("steps to zoom into", lambda: self.step_shown() > 20)
        browser.drag("figure.chart canvas", 0.3, 0.6)
        browser.click("button", "All steps")
        browser.until("[...document.querySelectorAll('button')].find((one) => one.textContent === 'All steps').hidden")
        browser.script("document.querySelector('figure.chart canvas').focus()")
        browser.press("Home")
        browser.until_text("figure.chart:nth-of-type(1) .readout", r"^step 1 ·")
        browser.press("ArrowRight", "ArrowRight")
        browser.until_text("figure.chart:nth-of-type(4) .readout", r"^step 3 ·")
        browser.press("Escape")
        browser.until("!document.querySelector('.readout').textContent.startsWith('step 3 ')")

    def test_the_plan_runs_predicted_above_measured(self):
        self.visit("jobs/%s/timeline" % self.live)
        browser.until_text(".lead", r"Step [\d,]+: predicted .*s, measured .*s \(")
        browser.click("label", "newest step")  # it stays as it is now
        self.assertEqual(browser.texts(".lane strong"), ["fast/cpu0", "slow/cpu0"])
        for word in ("predicted, busy", "measured, busy"):
            self.assertEqual(browser.text(".lane .name").count(word), 2)
        browser.until("%s.every((colours) => colours > 3)" % COLOURS, ".lane canvas")
        whole = browser.text(".range")
        browser.click("[aria-label='Zoom in']")
        browser.until("document.querySelector('.range').innerText !== arguments[0]", whole)
        zoomed = browser.text(".range")
        browser.click("[aria-label='Later']")
        browser.until("document.querySelector('.range').innerText !== arguments[0]", zoomed)
        browser.click("button", "Whole step")
        browser.until("document.querySelector('.range').innerText === arguments[0]", whole)
        browser.drag(".chart-area", 0.7, 0.3)  # the whole step has nowhere to be moved to
        self.assertEqual(browser.text(".range"), whole)
        browser.script("document.querySelector('.chart-area').focus()")
        browser.press("ArrowRight", "ArrowRight")
        browser.until_text("#selection", r"fast/cpu0: .*predicted .*s, from .* · measured ")
        browser.press("ArrowDown")
        browser.press("+", "+")
        browser.until("document.querySelector('.range').innerText !== arguments[0]", whole)
        browser.press("0")
        browser.until("document.querySelector('.range').innerText === arguments[0]", whole)
        browser.press("Escape")
        browser.until("document.querySelector('#selection').textContent === ''")
        browser.click(".legend button", "forward")
        self.assertEqual(browser.script("return document.querySelector('.legend [aria-pressed=true]').textContent"), "forward")
        browser.click(".legend button", "forward")
        for name in ("forward", "backward", "send", "receive"):
            self.assertIn(name, browser.text("table.totals"))
        browser.script("scrollTo(0, 0)")
        self.picture("timeline")

    def test_why_a_job_has_its_plan(self):
        self.visit("jobs/%s/why" % self.done)
        browser.until_text("main", "Instead")
        for word in ("Predicted: ", "Plan", "Bottleneck", "Bubble", "Proof", "this one", "equal split", "measured "):
            self.assertIn(word, browser.text("#tab"))
        self.picture("why")
        page = browser.script("return document.querySelector('#tab > p a').href")
        self.assertIn("<html", browser.script("return fetch(arguments[0]).then((answer) => answer.text())", page))

    def test_logs_come_as_they_are_written_and_markup_is_text(self):
        self.visit("jobs/" + self.failed)
        browser.until_text(".reason", re.escape(MARKUP))
        self.go("jobs/%s/logs" % self.failed)
        browser.until_text(".log", re.escape(MARKUP))
        self.go("jobs/%s/spec" % self.failed)
        browser.until_text("pre", re.escape(MARKUP))
        self.go("jobs")
        browser.until_text("table.jobs", re.escape(MARKUP))
        browser.script("location.hash = '#/' + encodeURIComponent(arguments[0])", MARKUP)
        browser.until_text("main", "There is no such view")
        browser.script("location.hash = '#/jobs/' + encodeURIComponent(arguments[0])", MARKUP)
        browser.until_text("main", "no job ")
        self.assert_unhurt()
        self.go("jobs/%s/logs" % self.live)
        browser.until_text(".log", "running")
        self.picture("logs")
        browser.type("[data-filter]", "running")
        browser.until("[...document.querySelectorAll('.log-line:not([hidden])')].every((line) => /running/i.test(line.textContent))")

    def test_nodes_and_their_leases(self):
        self.visit("nodes")
        browser.until_text("main", r"2 nodes alive; 2 devices, 2 in use")
        for name in ("fast", "slow"):
            browser.until_text("tr.node", name + r"\s+alive\s+lease renewed \d+ s ago · 127\.0\.0\.1:\d+")
        self.assertEqual(browser.texts("table.nodes a"), [self.live] * 2)
        browser.type("[data-filter]", "slow/none")
        browser.until("document.querySelectorAll('tr.node').length === 0")
        browser.type("[data-filter]", "fast")
        browser.until("document.querySelectorAll('tr.node').length === 1")

    def test_links_are_a_matrix(self):
        self.visit("links")
        browser.until("document.querySelectorAll('[data-pair]').length === 2")
        browser.until_text("[data-pair]", r"[kMG]?B/s")
        browser.click("[data-pair='fast/cpu0 slow/cpu0']")
        browser.until_text("h2", "fast/cpu0 – slow/cpu0")
        self.assertRegex(browser.text("main"), r"latency\s+[\d.]+ .s[\s\S]*message\s+one way")
        browser.press("ArrowDown")  # there is no link of a device to itself
        browser.press("ArrowLeft")
        browser.click(".chips button", "latency")
        browser.until_text("[data-pair]", r"[\d.]+ .?s")
        self.picture("links")
        browser.click("main button", "Measure")
        browser.click("dialog button[type=submit]")
        browser.until_text("dialog .error", "use|busy|free")  # both devices train
        browser.click("dialog button", "Back")
        browser.until("!document.querySelector('dialog')")

    def test_a_job_is_submitted_held_released_cancelled_resumed_and_deleted(self):
        self.visit("submit")
        browser.script("sessionStorage.clear()")
        self.visit("submit")
        browser.click("button", "Example")
        self.assertIn("name: bible", browser.script("return document.querySelector('textarea').value"))
        browser.type("textarea", "name: small\nmodell: 1\n")
        browser.click("button", "Submit")
        browser.until_text("main .error", "modell")
        browser.type("textarea", json.dumps(self.spec("submitted", scheduling={"hold": True})))  # which is YAML
        browser.click("button", "Submit")
        job = browser.until_text("h1", r"submitted-\d+")[0]
        browser.until_text(".state", "held")
        self.confirm("Release")
        browser.until_text(".state", "queued")
        self.confirm("Hold")
        browser.until_text(".state", "held")
        self.confirm("Cancel")
        browser.until_text(".state", "cancelled")
        self.confirm("Resume")
        browser.until_text(".state", "queued|held|recovering")
        self.confirm("Cancel")
        browser.until_text(".state", "cancelled")
        self.go("jobs/%s/spec" % job)
        browser.click("button", "Take it for a new job")
        browser.until("document.querySelector('textarea')?.value.includes('name: submitted')")
        text = browser.script("return document.querySelector('textarea').value")
        taken = cluster.write_file(os.path.join(self.directory, "taken.yaml"), text)
        again = self.running.json("submit", taken)["id"]
        self.assertEqual(self.running.job(again)["spec"], self.running.job(job)["spec"])
        self.running.cli("cancel", again)
        self.go("jobs/" + job)
        self.confirm("Delete")
        browser.until_text("h1", "^Jobs$")
        browser.until("!document.querySelector('table.jobs').innerText.includes(arguments[0])", job)
        self.assertNotEqual(self.running.cli("status", job, check=False).status, 0)
        self.assert_not_reloaded()

    def test_a_running_job_is_planned_anew(self):
        self.visit("jobs/" + self.live)
        browser.until_text(".state", "running")
        browser.click("main button", "Replan")
        browser.click("dialog button[type=submit]")
        browser.until("document.querySelector('dialog .error')?.textContent || document.querySelector('#said p')?.textContent")

    def test_everything_is_reached_by_keys(self):
        self.visit("jobs")
        browser.until("document.querySelector('[data-row]')")
        reached = []
        for _ in range(8):
            browser.press("Tab")
            reached.append(browser.script("return document.activeElement.id || document.activeElement.textContent.trim()"))
        self.assertEqual(reached, ["skip", "home", "Jobs", "Nodes", "Links", "Submit", "keys", "theme"])
        self.assertNotEqual(browser.script("return getComputedStyle(document.activeElement).outlineStyle"), "none")
        browser.press("/")
        self.assertTrue(browser.script("return document.activeElement.matches('[data-filter]')"))
        browser.press("j")
        self.assertEqual(browser.script("return document.activeElement.value"), "j")
        browser.type("[data-filter]", " ")
        browser.press("Escape", "j", "j", "k")
        first = browser.script("return document.activeElement.textContent")
        self.assertEqual(first, browser.script("return document.querySelector('[data-row]').textContent"))
        browser.press("Enter")
        browser.until_text("h1", re.escape(first))
        for key, tab in (("2", "timeline"), ("3", "why"), ("4", "logs"), ("5", "spec"), ("1", "overview")):
            browser.press(key)
            browser.until("document.querySelector('.tabs [aria-current]').textContent === arguments[0]", tab)
        browser.press("?")
        browser.until_text("dialog", "next and previous row")
        browser.press("Escape")
        browser.until("!document.querySelector('dialog')")
        for key, heading in (("n", "Nodes"), ("l", "Links"), ("s", "Submit a job"), ("j", "Jobs")):
            browser.press("g", key)
            browser.until_text("h1", "^%s$" % heading)
        browser.press("g", "n")
        browser.until("document.querySelector('table.nodes [data-row]')")
        browser.press("j")
        self.assertTrue(browser.script("return document.activeElement.matches('table.nodes a')"))

    def test_lengths_are_rounded(self):
        self.visit("jobs")
        lengths = [0, 1e-13, -9e-10, 1e-9, 2.5e-8, 1.5e-6, 0.0123, 12.34, 123.4, 1234]
        self.assertEqual(browser.script("const lengths = arguments[0];"
                                        "return import('/format.js').then(({ secondsText }) => lengths.map(secondsText))", lengths),
                         ["0 s", "0 s", "0 s", "1.000 ns", "25.00 ns", "1.500 µs", "12.30 ms", "12.34 s", "123.4 s", "1234 s"])

    def test_dark_and_light(self):
        for scheme, other in (("dark", "light"), ("light", "dark")):
            browser.scheme(scheme)
            self.visit("jobs")
            browser.script("localStorage.clear()")
            self.assertEqual(browser.script("return document.documentElement.dataset.theme"), scheme)
            shares = browser.script(CONTRAST, READABLE)
            self.assertEqual([pair for pair, share in zip(READABLE, shares) if share < 4.5], [], scheme)
            browser.scheme(other)
            browser.until("document.documentElement.dataset.theme === arguments[0]", other, what="it follows the system")
            browser.click("#theme")
            self.assertEqual(browser.script("return document.documentElement.dataset.theme"), scheme)
            self.visit("jobs")
            self.assertEqual(browser.script("return document.documentElement.dataset.theme"), scheme, "a choice is kept")
            browser.script("localStorage.clear()")

    def test_every_view_fits_a_telephone(self):
        browser.size(*PHONE)
        job = "jobs/" + self.live
        for place, seen in (("jobs", "table.jobs tbody tr"), (job, "section.devices tbody tr"), (job + "/timeline", ".lane"),
                            (job + "/why", "dl.why"), ("jobs/%s/why" % self.done, "dl.why"), (job + "/logs", ".log-line"),
                            (job + "/spec", "dl.facts dd"), ("nodes", "tr.node"), ("links", "[data-pair]"), ("submit", "textarea")):
            self.visit(place)
            browser.find(seen)
            self.assertEqual(browser.script(TOO_WIDE), [], place)
            self.picture("telephone-" + place.replace(self.live, "live").replace(self.done, "done").replace("/", "-"))
        self.visit("links")
        browser.click("[data-pair]")
        browser.find("table.points")
        self.assertEqual(browser.script(TOO_WIDE), [])


class ChangesTest(PageTest):
    """Devices that are free for what is tried, and what goes away and comes back."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, slow = fast_and_slow()
        cls.running = cls.new_site(lease_seconds=3).start({"stays": [fast], "goes": [slow]})
        cls.site = cls.running.site

    def test_a_coordinator_goes_and_comes_back(self):
        spec = self.spec("lasting", steps=10_000_000, batch={"sequences": 32, "sequence_length": 32},
                         constraints={"devices": ["stays/cpu0"]},
                         checkpoint={"directory": os.path.join(self.directory, "lasting"), "every_steps": 20, "keep": 1})
        job = self.running.submit(spec)
        self.running.wait_for_step(job, 5)
        self.visit("jobs/" + job)
        browser.until_text("figure.chart .readout", r"step [\d,]+ · \d")
        self.running.coordinator.kill()
        browser.until_text("#lost", "cannot be reached since")
        self.assertIn("no coordinator", browser.text("#connection"))
        self.assertIn(job, browser.text("h1"))
        self.assertRegex(browser.text("figure.chart .readout"), r"step [\d,]+ · \d")
        self.picture("away")
        self.running.start_coordinator()
        browser.until("document.querySelector('#lost').hidden")
        browser.until_text("#connection", "live")
        self.running.wait_for_job(job, "it trains", lambda now: now["state"] == "running")
        at = self.running.job(job)["last_step"]["step"]
        shown = "Number(document.querySelector('.figures dd').textContent.split('/')[0].replaceAll(',', ''))"
        browser.until(shown + " > arguments[0]", at + 3, what="steps go on")
        browser.until_text(".state", "running")
        browser.click("details.steps summary")
        browser.until("document.querySelectorAll('table.steps tbody tr').length > 5")
        numbers = [int(text) for text in browser.texts("table.steps tbody td:first-child")]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] - len(numbers), -1)))
        self.assert_not_reloaded()
        self.confirm("Cancel", "after its current step and a checkpoint")
        browser.until_text(".state", "cancelled")
        self.confirm("Resume")
        browser.until_text(".state", "running")
        self.confirm("Cancel")
        browser.until_text(".state", "cancelled")

    def test_a_dry_run_starts_nothing(self):
        self.visit("submit")
        browser.type("textarea", json.dumps(self.spec("tried"), indent=1))
        browser.press("Enter", holding="Control")
        browser.until_text("main", "Dry run: nothing was started")
        self.assertRegex(browser.text("main"), r"Why this plan[\s\S]*Instead[\s\S]*Devices, as planned[\s\S]*stays/cpu0")
        self.assertFalse(any(job["id"].startswith("tried") for job in self.running.json("status")["jobs"]))
        self.picture("dry-run")

    def test_a_node_is_drained_lost_and_forgotten(self):
        self.visit("nodes")
        browser.until_text("main", "2 nodes alive")
        row = "[...document.querySelectorAll('table.nodes tbody')].find((one) => one.innerText.startsWith('goes'))"
        press = "(%s).querySelectorAll('button').forEach((one) => { if (one.textContent === arguments[0]) one.click(); })" % row
        browser.until("(%s).innerText.includes('alive')" % row)
        browser.script(press, "Drain")
        browser.click("dialog button[type=submit]")
        browser.until("(%s).innerText.includes('drained')" % row)
        self.assertTrue(next(node for node in self.running.nodes() if node["name"] == "goes").get("drained"))
        browser.script(press, "Undrain")
        browser.click("dialog button[type=submit]")
        browser.until("!(%s).innerText.includes('drained')" % row)
        self.running.agents["goes"].kill_group()
        browser.until("(%s).innerText.includes('lost')" % row)
        browser.until_text("main", "1 node alive, 1 lost")
        self.picture("nodes")
        browser.script(press, "Forget")
        browser.click("dialog button[type=submit]")
        browser.until("!(%s)" % row)
        self.assert_not_reloaded()


class ManyJobsTest(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.running = cls.new_site()
        cls.running.start_coordinator()
        cls.site = cls.running.site

    def test_a_thousand_jobs_are_all_shown(self):
        ids = {self.running.call("SubmitJob", {"spec": self.spec("many", scheduling={"hold": True})})["job"]["id"] for _ in range(MANY)}
        self.visit("jobs")
        browser.until_text(".chips", r"all %d\b" % MANY)
        marks = browser.script("return arguments[0].map((name) => performance.getEntriesByName(name)[0].startTime)",
                               ["first-contentful-paint", "jobs-shown"])
        print("%d jobs: the first paint after %.0f ms, the first jobs after %.0f ms" % (MANY, *marks), flush=True)

        def all_shown():
            browser.script("scrollTo(0, document.documentElement.scrollHeight)")
            return browser.script("return document.querySelectorAll('table.jobs tbody tr').length") == MANY

        begun = time.monotonic()
        wait_for("all jobs are shown", all_shown)
        print("%d rows, scrolled to, after %.1f s" % (MANY, time.monotonic() - begun), flush=True)
        self.assertEqual(set(browser.texts("table.jobs [data-row]")), ids)
        browser.script("scrollTo(0, 0)")
        browser.type("[data-filter]", "many-%d" % MANY)
        browser.until("document.querySelectorAll('table.jobs tbody tr').length === 1")


class RolesTest(PageTest):
    """Everybody has a certificate here, but for a stranger."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.running = cls.new_site()
        authority = cls.running.path("authority")
        cls.medley("certs", "init", authority)
        for role in ("coordinator", "viewer", "operator", "admin"):
            cls.medley("certs", "issue", cls.running.path(role), "--authority", authority, "--role", role, "--name", role,
                       "--host", "localhost")
        cls.running.start_coordinator(tls={kind: cls.running.path("coordinator/%s.pem" % kind)
                                           for kind in ("certificate", "key", "authority")})
        os.environ["MEDLEY_CERTIFICATES"] = cls.running.path("admin")
        cls.addClassCleanup(os.environ.pop, "MEDLEY_CERTIFICATES")
        cls.job = cls.running.submit(cls.spec("guarded", scheduling={"hold": True}))

    @classmethod
    def medley(cls, *arguments):
        result = run_command([program("medley"), *arguments])
        if result.status != 0:
            raise AssertionError(str(result))

    def way_in(self, role):
        """The address at which somebody with this role looks at the pages."""
        tls = ssl.create_default_context(cafile=self.running.path("authority/authority.pem"))
        tls.check_hostname = False  # of a loopback address
        if role:
            tls.load_cert_chain(*(self.running.path("%s/%s.pem" % (role, kind)) for kind in ("certificate", "key")))
        way = WayIn(self.running.site, tls)
        self.addCleanup(way.close)
        return way.address

    def test_a_viewer_looks_and_changes_nothing(self):
        self.visit("jobs/" + self.job, self.way_in("viewer"))
        browser.until_text("#role", "viewer · viewer")
        browser.until_text(".state", "held")
        self.assertEqual(browser.script("return document.querySelectorAll('.actions button').length"), 0)
        self.go("submit")
        browser.until_text("main", "Your role does not allow to submit jobs")
        self.assertEqual(browser.visible("main button"), ["Example"])
        self.go("links")
        browser.until_text("h1", "Links")
        self.assertNotIn("Measure", browser.visible("main button"))
        refused = browser.script("return fetch('api/v1/CancelJob', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
                                 "body: JSON.stringify({job_id: arguments[0]})}).then((answer) => answer.status)", self.job)
        self.assertEqual(refused, 403)

    def test_an_operator_runs_jobs(self):
        self.visit("jobs/" + self.job, self.way_in("operator"))
        browser.until_text("#role", "operator")
        browser.until_text(".state", "held")
        self.confirm("Release")
        browser.until_text(".state", "queued")
        self.confirm("Hold")
        browser.until_text(".state", "held")

    def test_a_stranger_is_told_why_there_is_nothing(self):
        self.visit("jobs", self.way_in(None))
        browser.until_text("main", "a client certificate is needed")
        self.assertNotIn(self.job, browser.text())


if __name__ == "__main__":
    cluster.main()
