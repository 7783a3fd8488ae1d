"""Looks at a page of the audit on phones: phone.py CHROMIUM PAGE [DIRECTORY FOR PICTURES].

Nothing may be wider than the screen: the theme button, a status beside the session, the button that closes details.
"""

import pathlib
import sys

from playwright.sync_api import sync_playwright

chromium, path = sys.argv[1:3]
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for width in (320, 360, 412):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(pathlib.Path(path).absolute().as_uri())
        page.wait_for_selector("#grid[aria-rowcount]")
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= width, f"{wide} at {width}"

        def inside(selector):
            box = page.locator(selector).bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width, f"{selector}: {box} at {width}"

        inside("#theme")
        page.locator("#grid").scroll_into_view_if_needed()
        cell = page.locator('#grid [aria-rowindex="2"] [aria-colindex="3"]')
        status = cell.bounding_box()
        # The first letters of the status are in sight.
        assert status["x"] + 60 <= width, f"{status} at {width}"
        for picture in sys.argv[3:]:
            page.screenshot(path=pathlib.Path(picture) / f"phone-{width}.png", full_page=True)
        cell.click()
        page.wait_for_selector("#details[open]")
        inside("dialog .head button")
        page.close()
    browser.close()
