"""Looks at a page of the audit on phones, a tablet and a laptop: widths.py CHROMIUM PAGE [DIRECTORY FOR PICTURES].

Nothing may be wider than the screen: the theme button, a status beside the session, the button that closes details.
Axe finds nothing, and a link to a task opens what it is folded in.
"""

import pathlib
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

chromium, path = sys.argv[1:3]
address = pathlib.Path(path).absolute().as_uri()


def accessible(page, width):
    found = Axe().run(page).response["violations"]
    problems = [
        f"{rule['id']} at {width}: {node['html'][:200]} {node['failureSummary']}" for rule in found for node in rule["nodes"][:3]
    ]
    assert not problems, "\n".join(problems)


def link(page, width):
    """Opens the address of a failed task, and of one that is complete."""
    row = page.locator("tr[data-detail][id]").last
    name = row.get_attribute("id")
    assert not row.is_visible(), "it is folded"
    page.goto("about:blank")
    page.goto(f"{address}#{name}")
    page.wait_for_selector("#details[open]")
    title = page.inner_text("#details-title").split(" · ")
    assert name == "_".join([*title[1].split(), title[0]]), (name, title)
    page.click("#close")
    assert page.locator(f"[id='{name}']").is_visible(), "unfolded"
    assert "#" not in page.evaluate("location.href")
    accessible(page, width)
    # A task that is in the map only.
    cell = page.locator("#grid .g-complete").first
    cell.click()
    page.wait_for_selector("#details[open]")
    title = page.inner_text("#details-title")
    shared = page.evaluate("document.getElementById('link').href")
    assert shared == page.evaluate("location.href"), shared
    page.goto("about:blank")
    page.goto(shared)
    page.wait_for_selector("#details[open]")
    assert page.inner_text("#details-title") == title
    page.click("#close")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for width in (320, 360, 412, 768, 1366):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(address)
        page.wait_for_selector("#grid[aria-rowcount]")
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= width, f"{wide} at {width}"

        def inside(selector):
            box = page.locator(selector).bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width, f"{selector}: {box} at {width}"

        inside("#theme")
        for picture in sys.argv[3:]:
            page.screenshot(path=pathlib.Path(picture) / f"page-{width}.png", full_page=True)
        page.locator("#grid").scroll_into_view_if_needed()
        cell = page.locator('#grid [aria-rowindex="2"] [aria-colindex="3"]')
        status = cell.bounding_box()
        # The first letters of the status are in sight.
        assert status["x"] + 60 <= width, f"{status} at {width}"
        cell.click()
        page.wait_for_selector("#details[open]")
        inside("dialog .head button")
        inside("#link")
        page.click("#close")
        if width in (360, 768, 1366):
            accessible(page, width)
            link(page, width)
        page.close()
    browser.close()
