"""Check the site in a browser: ``make check-docs``.

Debian's Chromium opens each page of build/docs at the widths of a phone, a tablet and a screen. A page must
cause no error, ask no other host, and scroll in one direction only; links and anchors must exist, and the
search must find words that users have looked for. `--screenshots FOLDER` keeps pictures, light and dark.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urldefrag, urljoin

from playwright.sync_api import TimeoutError as Expired
from playwright.sync_api import sync_playwright

from tests.helpers.pages import SEARCHED

SITE = Path(__file__).parents[1] / "build" / "docs"
WIDTHS = {390: 844, 768: 1024, 1280: 900}
FACTS = """() => ({
    links: [...document.querySelectorAll("a[href]")].map(link => link.href),
    ids: [...document.querySelectorAll("[id]")].map(element => element.id),
    broken: [...document.images].filter(image => !image.naturalWidth).map(image => image.src),
    width: document.scrollingElement.scrollWidth,
})"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the folder on this host, and return its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Check:
    """What was found on the pages."""

    def __init__(self, browser, base: str, screenshots: Path | None) -> None:
        self.browser, self.base, self.screenshots = browser, base, screenshots
        self.problems: list[str] = []
        self.ids: dict[str, set[str]] = {}
        self.links: dict[str, set[str]] = {}

    def pages(self, addresses: list[str]) -> None:
        """Open all pages at each width."""
        for width, height in WIDTHS.items():
            page = self.open(width, height)
            for address in addresses:
                page.goto(address, wait_until="load")
                facts = page.evaluate(FACTS)
                name = f"{address.removeprefix(self.base)} at {width}"
                self.ids[address], self.links[address] = set(facts["ids"]), set(facts["links"])
                self.problems += [f"{name}: no picture {source}" for source in facts["broken"]]
                if facts["width"] > width:
                    self.problems.append(f"{name}: {facts['width']} pixels wide")
                self.keep(page, name.replace("/", "-"))
            page.context.close()

    def open(self, width: int, height: int, scheme: str = "light"):
        """Return an empty page that reports errors and requests of other hosts."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()

        def report(what: str) -> None:
            self.problems.append(f"{page.url} at {width}: {what}")

        page.on("console", lambda line: line.type in ("error", "warning") and report(line.text))
        page.on("pageerror", lambda error: report(str(error)))
        page.on(
            "response", lambda response: response.status < 400 or report(f"{response.url}: {response.status}")
        )
        page.on(
            "request",
            lambda request: request.url.startswith((self.base, "data:", "blob:")) or report(request.url),
        )
        return page

    def keep(self, page, name: str) -> None:
        """Keep a picture of the top of the page."""
        if self.screenshots is not None:
            page.screenshot(path=self.screenshots / f"{name}.png")

    def targets(self) -> None:
        """Check that links of the site lead to pages, and to anchors of them."""
        for address, links in self.links.items():
            for link in sorted(links):
                page, anchor = urldefrag(link)
                page = urljoin(page, "index.html") if page.endswith("/") else page
                if not page.startswith(self.base):
                    continue
                if page not in self.ids and not (SITE / page.removeprefix(self.base)).is_file():
                    self.problems.append(f"{address}: {link} does not exist")
                elif anchor and anchor not in self.ids.get(page, ()):
                    self.problems.append(f"{address}: {link} has no such anchor")

    def search(self) -> None:
        """Search from the first page, at the widths of a screen and of a phone."""
        for width, height in WIDTHS.items():
            page = self.open(width, height, scheme="dark")
            page.goto(self.base + "index.html", wait_until="load")
            self.keep(page, f"dark at {width}")
            wide = page.locator(".md-search__input").bounding_box() or {"x": -1, "y": -1}
            if not (0 <= wide["y"] < 100 and 0 <= wide["x"] < width):
                button = page.locator("label.md-header__button[for=__search]")
                if not button.is_visible():
                    self.problems.append(f"search at {width}: not in sight")
                    continue
                button.click()
            for word in SEARCHED if width == max(WIDTHS) else SEARCHED[:1]:
                page.fill(".md-search__input", "")
                page.type(".md-search__input", word)  # the theme searches when a key is released
                found = f".md-search-result__item mark:text-matches('{word}', 'i') >> nth=0"
                try:
                    page.wait_for_selector(found, state="attached", timeout=20_000)
                except Expired:
                    self.problems.append(f"search at {width}: {word} is not found")
            try:
                page.wait_for_function("document.scrollingElement.scrollWidth <= innerWidth")
            except Expired:
                self.problems.append(f"search at {width}: the page is too wide")
            self.keep(page, f"search at {width}")
            page.context.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.check_docs", description=__doc__.split("\n")[0])
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("check-docs needs Debian's Chromium: apt-get install chromium", file=sys.stderr)
        return 2
    if options.screenshots is not None:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    with (
        sync_playwright() as driver,
        served(SITE) as base,
        driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        check = Check(browser, base, options.screenshots)
        check.pages(sorted(base + str(file.relative_to(SITE)) for file in SITE.rglob("*.html")))
        check.targets()
        check.search()
    print("\n".join([*check.problems, f"{len(check.ids)} pages, {len(check.problems)} problems"]))
    return 1 if check.problems or not check.ids else 0


if __name__ == "__main__":
    sys.exit(main())
