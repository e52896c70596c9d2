"""Does the page of --report work in a real browser?

    python3 xtask/report/test.py SIMJOIN [--pictures FOLDER]

Makes reports of a few runs with the program SIMJOIN and tests them in a headless Chromium: no error in the
console, no request to the network, marks in every chart, a sample that can be filtered by mouse and
keyboard, light and dark, wide and narrow. --pictures FOLDER saves pictures of all pages. With --picture
FILE.html FILE.png it saves a picture of the beginning of a page instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

import chromium

SIMJOIN = None
PICTURES = None
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EVIL = ["</script>", "<img", "src=x", "onerror=alert(1)>", "\"'`&amp;", "🙂", "\u202etxt", "\x01\x7f", "{{data}}"]
WIDE, PHONE = (1280, 900), (360, 740)


def simjoin(folder, *arguments, **environment):
    """Runs the program in a folder."""
    fixed = {
        "SIMJOIN_MACHINE": os.environ.get("SIMJOIN_MACHINE", "fixed"),
        "XDG_CACHE_HOME": os.path.join(folder, ".cache"),
    }
    ran = subprocess.run(
        [SIMJOIN, *arguments], cwd=folder, env={**os.environ, **fixed, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
    )
    if ran.returncode:
        raise AssertionError(f"simjoin {' '.join(arguments)}: {ran.stderr.decode()}")


def write(folder, name, lines):
    """Writes lines to a file."""
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def reports(folder):
    """Makes a report of each kind of run, and returns their names."""
    with open(os.path.join(ROOT, "samples", "books.csv"), encoding="utf-8") as books:
        titles = [line.strip() for line in books][1:]
    write(folder, "titles.txt", titles)
    simjoin(folder, "generate", "dirty", "titles.txt", "--copies", "40", "--edits", "1..4", "-o", "dirty.txt")
    simjoin(folder, "text", "dirty.txt", "--jaccard", "0.6", "-o", "pairs.tsv", "--report", "text.html")
    simjoin(
        folder, "text", "titles.txt", "dirty.txt", "--tokens", "qgrams:3", "--cosine", "0.7", "--with-itself",
        "--count", "--report", "two.html", "--engine", "hybrid", "--split", "0.5",
        SIMJOIN_SIMULATED_GPU="speed=3",
    )
    simjoin(
        folder, "sets", "dirty.txt", "--overlap", "3", "--groups", "-o", "groups.tsv", "--engine", "gpu",
        "--report", "gpu.html", SIMJOIN_SIMULATED_GPU="speed=3",
    )
    evil = " ".join(EVIL)
    write(folder, "evil.txt", [evil, evil + " more", "a b", "b a"])
    simjoin(folder, "sets", "evil.txt", "--jaccard", "0.5", "--count", "--report", "evil.html")
    write(folder, "none.txt", ["a b", "c d", ""])
    simjoin(folder, "sets", "none.txt", "--jaccard", "0.9", "--count", "--report", "none.html")
    simjoin(folder, "generate", "vectors", "clusters", "--vectors", "3000", "--dimension", "8", "-o", "points.npy")
    simjoin(folder, "vectors", "points.npy", "--within", "0.1", "--count", "--report", "vectors.html")
    return ["text.html", "two.html", "gpu.html", "evil.html", "none.html", "vectors.html"]


class Report(unittest.TestCase):
    """Tests with one browser and one folder of reports."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="simjoin-report-")
        cls.names = reports(cls.folder.name)
        cls.browser = chromium.Browser(chromium.find())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def open(self, name, size=WIDE, dark=False):
        """Opens a report."""
        self.browser.show(*size, dark=dark)
        self.browser.open(os.path.join(self.folder.name, name))
        self.browser.settle()

    def ask(self, expression):
        """Returns the value of an expression on the page."""
        return self.browser.ask(expression)

    def data(self):
        """Returns the data of the page."""
        return json.loads(self.ask("JSON.stringify(data)"))

    def marks(self, selector):
        """Returns the number of visible elements."""
        return self.ask(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter((one) => {{"
            " const box = one.getBoundingClientRect(); return box.width > 0 && box.height > 0; }).length"
        )

    def picture(self, name, **more):
        """Saves a picture of the page if requested."""
        if PICTURES:
            self.browser.picture(os.path.join(PICTURES, name + ".png"), **more)

    def test_pages_load_without_errors_or_requests(self):
        for name in self.names:
            for size, dark in [(WIDE, False), (WIDE, True), (PHONE, False), (PHONE, True)]:
                with self.subTest(name=name, size=size, dark=dark):
                    self.open(name, size, dark)
                    self.assertEqual(self.browser.errors, [])
                    asked = [url for url in self.browser.requests if not url.startswith(("file:", "data:"))]
                    self.assertEqual(asked, [])
                    self.assertEqual(len(self.browser.requests), len(set(self.browser.requests)))
                    # Nothing is wider than the window.
                    self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), size[0])
                    form = "dark" if dark else "light"
                    where = "phone" if size == PHONE else "wide"
                    self.picture(f"{name.removesuffix('.html')}-{where}-{form}")

    def test_charts_have_marks_and_labels(self):
        for name in self.names:
            with self.subTest(name=name):
                self.open(name)
                data = self.data()
                filled = [bin for bin in data["histogram"]["bins"] if bin["count"]]
                self.assertEqual(self.marks("#results .bar"), len(filled))
                self.assertEqual(self.marks("#funnel li"), len(data["funnel"]))
                self.assertEqual(self.marks("#funnel .fill"), sum(1 for one in data["funnel"] if one["pairs"]))
                self.assertGreaterEqual(self.marks("#input .bar"), 1)
                spans = sum(len(row["spans"]) for row in data["timeline"]["rows"])
                self.assertEqual(self.marks("#timeline .span"), spans + len(data["timeline"]["both"]))
                if data["frequencies"]:
                    self.assertEqual(self.marks("#input .dot"), len(data["frequencies"]["curve"]))
                if data["groups"] and data["groups"]["groups"]:
                    self.assertGreaterEqual(self.marks("#groups .bar"), 1)
                # Every chart has a label and a table with the same numbers.
                self.assertEqual(self.ask("[...document.querySelectorAll('svg')].filter((one) => one.getAttribute('role') !== 'img' || !one.getAttribute('aria-label')).length"), 0)
                self.assertEqual(
                    self.ask("[...document.querySelectorAll('.chart')].filter((one) => !one.closest('figure').querySelector('table')).length"), 0
                )
                self.assertEqual(self.ask("document.querySelectorAll('h1').length"), 1)
                self.assertEqual(self.ask("[...document.querySelectorAll('section')].filter((one) => !one.querySelector('h2')).length"), 0)
                self.assertEqual(self.ask("[...document.querySelectorAll('nav a')].filter((one) => !document.querySelector(one.getAttribute('href'))).length"), 0)
                self.assertEqual(self.ask("[...document.querySelectorAll('input, select')].filter((one) => !one.closest('label')).length"), 0)

    def test_numbers_on_the_page_equal_the_data(self):
        self.open("text.html")
        data = self.data()
        grouped = f"{data['pairs']:,}"
        self.assertIn(f"{grouped} similar pairs among", self.ask("document.querySelector('h1').textContent"))
        self.assertIn(grouped, self.ask("document.title"))
        values = self.ask("[...document.querySelectorAll('#funnel .value')].map((one) => one.textContent)")
        self.assertEqual(values, [f"{one['pairs']:,}" for one in data["funnel"]])
        cells = self.ask("[...document.querySelectorAll('#results td.n')].map((one) => Number(one.textContent.replaceAll(',', '')))")
        self.assertEqual(sum(cells), data["pairs"])

    def shown(self):
        """Returns the values of the shown pairs."""
        return self.ask("[...document.querySelectorAll('ol.pairs > li')].map((one) => Number(one.dataset.value))")

    def focus(self, selector):
        """Focuses an element."""
        self.ask(f"document.querySelector({json.dumps(selector)}).focus()")

    def clear(self):
        """Clears the filters."""
        self.ask("[...document.querySelectorAll('#pairs button')].find((one) => one.textContent === 'Clear').click()")

    def test_sample_is_filtered_with_the_keyboard(self):
        self.open("text.html")
        everything = [pair["value"] for pair in self.data()["sample"]["pairs"]]
        self.assertEqual(len(self.shown()), 25)
        self.assertGreater(max(self.shown()), min(self.shown()))
        self.focus("#pairs-from")
        self.browser.type("0.7")
        self.browser.key("Tab", 9)
        self.assertEqual(self.ask("document.activeElement.id"), "pairs-to")
        self.browser.type("0.8")
        wanted = [value for value in everything if 0.7 <= value <= 0.8]
        self.assertGreater(len(wanted), 0)
        self.assertLess(len(wanted), len(everything))
        self.assertEqual(len(self.shown()), min(25, len(wanted)))
        self.assertTrue(all(0.7 <= value <= 0.8 for value in self.shown()))
        self.assertIn(f"of {len(wanted)} pair", self.ask("document.querySelector('#pairs [role=status]').textContent"))
        # Filter by text, clear, then show more.
        self.clear()
        self.assertEqual(len(self.shown()), 25)
        word = self.data()["sample"]["pairs"][0]["left"]["tokens"][0]
        self.focus("#pairs-find")
        self.browser.type(word)
        texts = self.ask("[...document.querySelectorAll('ol.pairs > li')].map((one) => one.textContent.toLowerCase())")
        self.assertTrue(texts and all(word in text for text in texts))
        self.clear()
        self.ask("document.querySelector('#pairs-order').value = 'falling'")
        self.ask("document.querySelector('#pairs-order').dispatchEvent(new Event('change'))")
        self.assertEqual(self.shown(), sorted(everything, reverse=True)[:25])
        self.ask("[...document.querySelectorAll('#pairs button')].find((one) => one.textContent === 'Show more').click()")
        self.assertEqual(self.shown(), sorted(everything, reverse=True)[:75])
        self.assertEqual(self.browser.errors, [])

    def test_bar_of_the_histogram_shows_its_pairs(self):
        self.open("vectors.html")
        self.ask("document.querySelector('#results .bar').dispatchEvent(new MouseEvent('click'))")
        first = next(bin for bin in self.data()["histogram"]["bins"] if bin["count"])
        values = self.shown()
        self.assertTrue(values)
        self.assertTrue(all(first["from"] <= value <= first["to"] + 1e-9 for value in values))

    def test_counts_have_two_scales(self):
        self.open("text.html")
        heights = "[...document.querySelectorAll('#results .bar')].map((one) => Number(one.getAttribute('height')))"
        before = self.ask(heights)
        self.ask("document.querySelector('#results input[type=checkbox]').click()")
        after = self.ask(heights)
        self.assertEqual(len(before), len(after))
        self.assertNotEqual(before, after)

    def test_shared_tokens_are_marked(self):
        self.open("evil.html")
        # The texts have added no elements to the page.
        self.assertEqual(self.ask("document.querySelectorAll('img, script:not([id]) ~ script').length"), 0)
        self.assertEqual(self.ask("document.scripts.length"), 2)
        pairs = self.data()["sample"]["pairs"]
        long = next(pair for pair in pairs if len(pair["left"]["tokens"]) > 2)
        self.assertEqual(long["left"]["tokens"], EVIL)
        text = self.ask("[...document.querySelectorAll('ol.pairs > li')].map((one) => [...one.querySelectorAll('mark')].map((mark) => mark.textContent).join('|'))")
        self.assertTrue(any("</script> <img src=x onerror=alert(1)>" in one for one in text), text)
        # Invisible characters are shown as symbols or numbers.
        self.assertTrue(any("␁␡" in one and "\\u202etxt" in one for one in text), text)
        self.assertTrue(all("more" not in one for one in text))

    def test_light_and_dark_have_enough_contrast(self):
        contrast = """
        (() => {
          const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
          const light = (colour) => numbers(colour).slice(0, 3).map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          }).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
          const behind = (one) => {
            for (; one; one = one.parentElement) {
              const colour = getComputedStyle(one).backgroundColor;
              if (numbers(colour).length < 4 || numbers(colour)[3] > 0) return colour;
            }
            return 'rgb(255, 255, 255)';
          };
          let least = [99, ''];
          const look = (one, colour) => {
            const [a, b] = [light(colour), light(behind(one.ownerSVGElement || one))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < least[0]) least = [ratio, one.outerHTML.slice(0, 120)];
          };
          for (const one of document.querySelectorAll('h1, h2, h3, p, li, dt, dd, td, th, a, figcaption, summary, mark, small, .note, .key, .more, label, button')) look(one, getComputedStyle(one).color);
          for (const one of document.querySelectorAll('svg text')) look(one, getComputedStyle(one).fill);
          return least;
        })()
        """
        pages = []
        for dark in [False, True]:
            self.open("text.html", dark=dark)
            ratio, where = self.ask(contrast)
            self.assertGreaterEqual(ratio, 4.5, where)
            pages.append(self.ask("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(*pages)

    def test_page_can_be_printed(self):
        self.open("text.html")
        answer = self.browser.call("Page.printToPDF", printBackground=False)
        self.assertGreater(len(answer["data"]), 10_000)


def main():
    """Runs the tests, or saves a picture."""
    global SIMJOIN, PICTURES
    parser = argparse.ArgumentParser()
    parser.add_argument("simjoin", nargs="?")
    parser.add_argument("--pictures", help="a folder for pictures of all pages")
    parser.add_argument("--picture", nargs=2, metavar=("FILE.html", "FILE.png"))
    options = parser.parse_args()
    if not chromium.find():
        sys.exit("no Chromium was found; install it, on Debian by: apt-get install chromium")
    if options.picture:
        with chromium.Browser(chromium.find()) as browser:
            browser.show(1000, 900)
            browser.open(options.picture[0])
            browser.settle()
            end = browser.ask("document.querySelector('#funnel').getBoundingClientRect().bottom + scrollY")
            browser.picture(options.picture[1], most=end)
        return
    SIMJOIN = os.path.abspath(options.simjoin)
    if options.pictures:
        PICTURES = os.path.abspath(options.pictures)
        os.makedirs(PICTURES, exist_ok=True)
    unittest.main(argv=[sys.argv[0], "--verbose"])


if __name__ == "__main__":
    main()
