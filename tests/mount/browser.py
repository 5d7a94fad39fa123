# Drives Chromium without a screen by WebDriver: JSON over HTTP on this machine.
#
#   browser.py FILE.svg EXPECTED.json
#
# clicks in a flame graph as a user does. EXPECTED.json: "zoom", the name of a frame; "search", an expression
# and the percentage of all samples that it has.
import json, os, re, signal, subprocess, sys, tempfile, urllib.request

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
         "--disable-background-networking", "--disable-sync", "--window-size=1300,900"]
FIELD = "//*[local-name()='input']"
ESCAPE = "\ue00c"

# The visible frames in order, as JSON.
FRAMES = """
return Array.from(document.querySelectorAll("g[data-box]")).map(function (g) {
    var rect = g.querySelector("rect"), text = g.querySelector("text"), box = rect.getBoundingClientRect();
    var letters = text && text.textContent ? text.getBoundingClientRect() : null;
    return {title: g.querySelector("title").textContent, seen: g.style.display !== "none", width: box.width,
            text: text ? text.textContent : "", hit: g.classList.contains("hit"), fill: getComputedStyle(rect).fill,
            fits: !letters || (letters.left >= box.left && letters.right <= box.right)};
});"""


class Browser:
    def __init__(self, profile):
        # A separate session, so that processes and files of the browser are removed with it.
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, start_new_session=True, env=dict(os.environ, TMPDIR=profile))
        for line in self.driver.stdout:
            port = re.search(r"successfully on port (\d+)", line)
            if port:
                break
        else:
            sys.exit("chromedriver did not start")
        self.address = "http://127.0.0.1:%s/session" % port[1]
        options = {"binary": "/usr/bin/chromium", "args": FLAGS + ["--user-data-dir=" + profile]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.address += "/" + self.call("", capabilities={"alwaysMatch": wanted})["sessionId"]

    def call(self, path, **values):
        request = urllib.request.Request(self.address + path, json.dumps(values).encode(), {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            return json.load(opener.open(request, timeout=60))["value"]
        except urllib.error.HTTPError as error:
            sys.exit("%s: %s" % (path, error.read().decode()))

    def run(self, script):
        return self.call("/execute/sync", script=script, args=[])

    def frames(self):
        return {frame["title"].rpartition(" (")[0]: frame for frame in self.run(FRAMES)}

    # Moves the pointer there and clicks. An element that lies above gets the click, as with a user's pointer.
    def click(self, xpath):
        there = self.call("/element", using="xpath", value=xpath)
        steps = [{"type": "pointerMove", "origin": there, "x": 0, "y": 0}, {"type": "pointerDown", "button": 0},
                 {"type": "pointerUp", "button": 0}]
        self.call("/actions", actions=[{"type": "pointer", "id": "mouse", "actions": steps}])

    def type(self, text):
        steps = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("/actions", actions=[{"type": "key", "id": "keyboard", "actions": steps}])

    def text(self, kind):
        return self.run("return document.querySelector('%s').textContent" % kind)

    def close(self):
        os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait()


def same(got, expected, what):
    if got != expected:
        sys.exit("%s: got %r, expected %r" % (what, got, expected))


def frame(name):
    return "//*[local-name()='g'][*[local-name()='title'][starts-with(., '%s (')]]" % name


def check_fit(frames, when):
    same([f["title"] for f in frames.values() if f["seen"] and not f["fits"]], [], "texts wider than their frames " + when)


def check_zoom(browser, name):
    first = browser.frames()
    check_fit(first, "at first")
    same(browser.run("return document.querySelector('.reset').style.display"), "none", "reset before anything was done")
    browser.click(frame(name))
    then = browser.frames()
    check_fit(then, "in the zoom")
    same(round(then[name]["width"]), round(first["all"]["width"]), "width of the frame that was clicked")
    same(round(then["all"]["width"]), round(first["all"]["width"]), "width of the root")
    hidden = [n for n, f in then.items() if not f["seen"]]
    if first[name]["width"] >= first["all"]["width"] or not hidden:
        sys.exit("nothing had to be hidden: choose another frame")
    return first


def check_search(browser, expression, percent):
    browser.click(FIELD)
    browser.type(expression)
    same(browser.text(".matched"), "matched: %.2f %%" % percent, "what was matched")
    for name, f in browser.frames().items():
        same(f["hit"], name != "all" and bool(re.search(expression, name)), "whether %s is marked" % name)
        same(f["fill"] == "rgb(224, 64, 224)", f["hit"], "the colour of " + name)
    browser.type("[")
    same(browser.text(".matched"), "not a regular expression", "of a bracket")


def check(browser, expected):
    first = check_zoom(browser, expected["zoom"])
    browser.click("//*[@class='reset']")
    same(browser.frames(), first, "after reset")
    check_search(browser, *expected["search"])
    browser.click("//*[@class='reset']")
    same(browser.frames(), first, "after reset of the search")
    browser.click(frame(expected["zoom"]))
    same(browser.text(".under"), first[expected["zoom"]]["title"], "the line below, of the frame under the pointer")
    browser.type(ESCAPE)
    same(browser.frames(), first, "after Escape")
    same(browser.call("/se/log", type="browser"), [], "messages of the browser")


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    browser = Browser(profile)
    try:
        browser.call("/url", url="file://" + os.path.abspath(sys.argv[1]))
        check(browser, json.load(open(sys.argv[2])))
    finally:
        browser.close()
