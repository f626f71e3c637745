"""Chromium, driven by the WebDriver protocol, which is JSON over HTTP: what the dashboard's tests need of it and no more."""
import base64
import http.client
import json
import os
import re
import shutil
import urllib.parse

from cluster import Process, wait_for

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference to an element
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Control": "\ue009", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011",
        "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015"}
# Nothing of Chromium's own goes out, and it ends when its pipe to the driver does.
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
             "--no-proxy-server", "--remote-debugging-pipe", "--force-device-scale-factor=1", "--hide-scrollbars",
             "--window-size=1400,1100"]


def missing():
    """Of the two programs, those that this machine lacks."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


class Browser:
    """One window of one Chromium whose files are all in `directory`."""

    def __init__(self, directory):
        os.makedirs(directory, exist_ok=True)
        environment = {**os.environ, "HOME": directory, "TMPDIR": directory, "XDG_CONFIG_HOME": directory, "XDG_CACHE_HOME": directory}
        self.driver = Process("chromedriver", ["chromedriver", "--port=0"], os.path.join(directory, "chromedriver.log"), env=environment)
        self.session = None
        self.seen = []  # what was taken from the log of requests

        def port():
            if self.driver.child.poll() is not None:
                raise AssertionError("chromedriver ended:\n" + self.driver.log())
            return re.search(r"started successfully on port (\d+)", self.driver.log())

        self.address = "127.0.0.1:" + wait_for("chromedriver listens", port)[1]
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": shutil.which("chromium"),
                                   "args": ARGUMENTS + ["--user-data-dir=" + os.path.join(directory, "profile")]},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": 120_000, "pageLoad": 120_000}}}})
        self.session = "/session/" + answer["sessionId"]

    def close(self):
        if self.session:
            try:
                self.ask("DELETE", self.session)
            except (OSError, http.client.HTTPException):
                pass  # it is killed all the same
        self.driver.kill_group()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=180)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError("%s %s: %s: %s" % (method, path, value["error"], value["message"].split("\n")[0]))
        return value

    def send(self, path, **body):
        return self.ask("POST", self.session + path, body)

    def protocol(self, method, **parameters):
        """Of Chromium's own protocol: what WebDriver has not."""
        return self.send("/goog/cdp/execute", cmd=method, params=parameters)

    # Pages.

    def open(self, address):
        self.send("/url", url=address)

    def script(self, text, *arguments):
        """The body of a function of `arguments`; what it returns."""
        return self.send("/execute/sync", script=text, args=list(arguments))

    def until(self, expression, *arguments, what=None, seconds=120):
        """The first truthy value of an expression in the page."""
        def failure():
            return "%s; the page at %s is\n%s" % (what or expression, self.script("return location.href"),
                                                  self.script("return document.body.innerText")[:4000])

        return wait_for(failure, lambda: self.script("return " + expression, *arguments), seconds)

    def text(self, css="body"):
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')", css)

    def texts(self, css):
        """Of each such element."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", css)

    def visible(self, css):
        """The texts of those that are to be seen."""
        return self.script("return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility())"
                           ".map((one) => one.textContent)", css)

    def until_text(self, css, pattern, seconds=120):
        """What matches in the text of the elements, once something does."""
        self.until("new RegExp(arguments[1]).test([...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n'))",
                   css, pattern, what="%s has /%s/" % (css, pattern), seconds=seconds)
        return re.search(pattern, self.text(css))

    # What somebody does.

    def find(self, css, text=None):
        """The first visible element, if need be the one whose text is `text`, once there is one."""
        return self.until("[...document.querySelectorAll(arguments[0])].find((one) => one.checkVisibility() && "
                          "(arguments[1] === null || one.textContent.trim() === arguments[1]))", css, text,
                          what="there is %s %s" % (css, text or ""))

    def click(self, css, text=None):
        self.send("/element/%s/click" % self.find(css, text)[ELEMENT])

    def type(self, css, text):
        """In place of what the field had."""
        field = self.find(css)[ELEMENT]
        self.send("/element/%s/clear" % field)
        self.send("/element/%s/value" % field, text=text)

    def press(self, *keys, holding=None):
        """One key after another, where the focus is."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        if holding:
            actions = [{"type": "keyDown", "value": KEYS[holding]}, *actions, {"type": "keyUp", "value": KEYS[holding]}]
        self.send("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def drag(self, css, start, end):
        """The mouse over the first such element, from one share of its width to another."""
        box = self.script("const box = arguments[0].getBoundingClientRect(); return [box.left, box.top, box.width, box.height]",
                          self.find(css))
        places = [(round(box[0] + share * box[2]), round(box[1] + box[3] / 3)) for share in (start, (start + end) / 2, end)]
        moves = [{"type": "pointerMove", "x": x, "y": y, "duration": 0} for x, y in places]
        self.send("/actions", actions=[{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]}])

    # How it looks.

    def size(self, width, height):
        self.protocol("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        """What the system prefers: "dark", "light"."""
        self.protocol("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", self.session + "/screenshot")))

    # What was heard of it.

    def complaints(self):
        """What the console has had of errors since the last call, without requests that failed."""
        lines = self.send("/se/log", type="browser")
        return [line["message"] for line in lines if line["level"] == "SEVERE" and line["source"] != "network"]

    def requests(self):
        """The addresses of all requests so far that may leave the browser."""
        for line in self.send("/se/log", type="performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.seen.append(message["params"]["request"]["url"])
        return [url for url in self.seen if urllib.parse.urlsplit(url).scheme in ("http", "https", "ws", "wss", "ftp")]
