"""Pages in a real browser without a network: Debian's chromium driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(__file__).parent / "axe" / "axe.min.js"

# every text of a picture: inside of it, over no other, and how large its letters are on the screen
_GEOMETRY = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const box = svg.getBoundingClientRect();
    if (!box.width || !svg.checkVisibility()) continue;
    const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim() && text.checkVisibility());
    const boxes = texts.map(text => ({ text: text.textContent.trim(), own: text.getBoundingClientRect(),
      size: parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b),
      turned: Math.abs(text.getScreenCTM().b) > 1e-3 }));
    for (const { text, own, size } of boxes) {
      const beyond = [box.left - own.left, own.right - box.right, box.top - own.top, own.bottom - box.bottom];
      if (Math.max(...beyond) > 1.5)
        found.push(`outside: ${text}`);
      if (size < 8 - 1e-6) found.push(`small: ${text} ${size.toFixed(1)}`);
    }
    for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
      const [a, b] = [boxes[i].own, boxes[j].own];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      // boxes of lines hold room for accents and descenders, which letters rarely fill
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) - 0.3 * Math.min(a.height, b.height);
      if (across > 1 && down > 1) found.push(`over each other: ${boxes[j].text} | ${boxes[i].text}`);
    }
  }
  return found;
}"""

PATIENCE = 300_000
"""Milliseconds within which a page opens and draws on a machine however busy; what never ends is cut there."""


@dataclass
class Opened:
    """A page that is shown, and what the browser said and asked for meanwhile."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def settled(self) -> None:
        """Waits until the views are drawn."""
        self.page.wait_for_selector("#explorer[data-ready]", timeout=PATIENCE)

    def geometry(self) -> list[str]:
        """Texts of pictures that are cut, too small, or over each other."""
        found: list[str] = self.page.evaluate(_GEOMETRY)
        return found

    def unfold(self) -> None:
        """Opens all that is folded."""
        self.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")

    def axe(self) -> list[str]:
        """What axe-core has against the page."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]


Show = Callable[..., Opened]
"""Opens a page of a path, with the options of ``opened``, and waits until it is drawn."""


@contextmanager
def browser() -> Iterator[Any]:
    """A browser; the test is skipped, with the reason, where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')"
    )
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine (apt-get install chromium)")
    with sync_api.sync_playwright() as found:
        one = found.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        one.close()


@contextmanager
def opened(one: Any, path: Path, *, hash_: str = "", width: int = 1280, **options: Any) -> Iterator[Opened]:
    """A page in a window of its own.

    Args:
        hash_: behind the page's address.
        options: of playwright's context, such as ``color_scheme``.
    """
    context = one.new_context(viewport={"width": width, "height": 800}, offline=True, **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    shown = Opened(page)
    page.on("console", lambda message: shown.said.append(message.text))
    page.on("pageerror", lambda error: shown.said.append(str(error)))
    page.on("request", lambda request: shown.asked.append(request.url))
    page.goto(f"file://{path}{hash_}")
    yield shown
    context.close()
