"""The page in a browser: what its script does, and that it can be used by everyone.

Without a browser they are skipped; where ``EXPORTLINT_BROWSER`` is ``required``, as in CI, they fail.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from readiness_samples import measured, passing, sample, shared

from exportlint.report import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUIRED = os.environ.get("EXPORTLINT_BROWSER") == "required"
load = importlib.import_module if REQUIRED else pytest.importorskip
api = load("playwright.sync_api")
Axe = load("axe_playwright_python.sync_playwright").Axe
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[api.Browser]:
    if CHROMIUM is None:
        (pytest.fail if REQUIRED else pytest.skip)("there is no Chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "r.html"
    cases = (*sample().cases, *shared().cases, *passing().cases, *measured().cases)
    write(dataclasses.replace(sample(), cases=cases), path)
    return path


@pytest.fixture
def page(browser, file) -> Iterator[api.Page]:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: request.url == file.as_uri() or troubles.append(request.url))
    page.goto(file.as_uri())
    yield page
    page.close()
    assert troubles == []


SHOWN = """() => {
  const rows = [...document.querySelectorAll("#cases tbody tr")].filter(row => row.checkVisibility());
  return rows.map(row => row.querySelector("th a").innerText);
}"""


def names(page) -> list[str]:
    settled(page)
    return page.evaluate(SHOWN)


def settled(page) -> None:
    """Let the page do what waits for a change of its address."""
    page.wait_for_timeout(50)


ALL = ["unlucky", "decoder", "wrong", "a", "b", "known", "encoder", "model", "fast"]


def test_search_and_choices_leave_what_fits(page):
    assert names(page) == ALL
    page.fill("#search", "COD")
    assert names(page) == ["decoder", "encoder"]
    assert page.inner_text("#count") == "2 of 9 cases"
    page.select_option("#outcome", "failed")
    assert names(page) == ["decoder"]
    page.fill("#search", "")
    assert names(page) == ["decoder", "wrong", "a", "b"]
    page.select_option("#rule", "EXP101")
    assert names(page) == ["decoder", "wrong"]
    page.select_option("#package", "library")
    assert names(page) == ["wrong"]
    page.select_option("#package", "project")
    assert names(page) == ["decoder"]
    assert page.locator("article:visible").count() == 2  # what is known of another case is not shown
    page.select_option("#rule", "")
    page.select_option("#package", "")
    page.select_option("#outcome", "")
    page.select_option("#origin", "model.py")
    assert names(page) == ["model"]
    assert page.locator("article:visible").count() == 0


def test_a_case_and_a_line_show_what_concerns_them_and_back_goes_back(page):
    page.click("text=encoder")
    assert names(page) == ["encoder"]
    page.go_back()
    assert names(page) == ALL
    page.click("#line-1 a")
    assert names(page) == ["decoder", "a", "b"]
    page.click("text=show all cases")
    assert names(page) == ALL


def test_plots_are_those_of_the_case(page):
    assert page.locator("svg:visible").count() == 2
    page.click("text=fast")
    settled(page)
    assert page.locator("svg:visible").count() == 1
    assert "exported 1.25" in page.inner_text(".measured:visible")


def test_plots_of_many_cases_at_once_are_not_shown(browser, tmp_path):
    cases = tuple(dataclasses.replace(case, name=f"{case.name}{i}") for i in range(10) for case in measured().cases)
    path = tmp_path / "many.html"
    write(dataclasses.replace(measured(), cases=cases), path)
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.locator("svg:visible").count() == 0
    page.fill("#search", "wrong3")
    assert page.locator("svg:visible").count() == 1
    page.close()


def test_columns_are_sorted_both_ways(page):
    page.click("#cases thead button:has-text('case')")
    assert names(page) == sorted(ALL)
    page.click("#cases thead button:has-text('case')")
    assert names(page) == sorted(ALL, reverse=True)
    page.click("#cases thead button:has-text('capture')")
    assert names(page)[:2] == ["unlucky", "decoder"]


def test_the_keyboard_is_enough(page):
    page.keyboard.press("/")
    page.keyboard.type("unlucky")
    assert names(page) == ["unlucky"]
    page.fill("#search", "")
    page.focus("#case-2 a")
    page.keyboard.press("Enter")
    assert names(page) == ["decoder"]
    page.keyboard.press("Escape")
    assert names(page) == ALL
    page.focus("#cases thead button")
    page.keyboard.press("Enter")
    assert page.get_attribute("#cases thead th", "aria-sort") == "ascending"


@pytest.mark.parametrize("width", [380, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_and_words_can_be_read(page, width, scheme):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(page).generate_report().startswith("Found 0 accessibility violations")


def test_without_scripts_everything_is_shown(browser, file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert names(page) == ALL
    assert not page.locator("#controls").is_visible()
    assert page.locator("article").count() == page.locator("article:visible").count() > 0
    context.close()
