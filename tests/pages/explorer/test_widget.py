"""The views in a notebook: the scripts of a page, closed off from what surrounds them, with the selection in Python."""

from __future__ import annotations

import base64
import json
from importlib import util
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.browser import Opened, Show, opened
from support.synthetic import synthetic_run

from bathyscope.errors import OptionError
from bathyscope.pages.explorer import assets
from bathyscope.pages.explorer.content import content
from bathyscope.pages.explorer.still import picture_panel
from bathyscope.pages.head.section import profile_html
from bathyscope.runs.run import Run

CELLS = (
    "import bathyscope\nrun = bathyscope.open('run')",
    "views = run.explore(run, names=['one', 'two'])\nviews",
    "views.selection = {'block': 3, 'prompt': 2}\nviews.selection",
)
_INSIDE = "document.querySelector('#output > div').shadowRoot"
# what anywidget gives to a module: values that are synchronised, and an element
HOST = """<!DOCTYPE html><html lang="en"><title>notebook</title>
<style>h2 { color: rgb(255, 0, 0); } .view { display: none; } body { background: GROUND; }</style>
<body><main><h1>notebook</h1><div id="output"></div></main><script type="module">
const state = STATE;
const listeners = [];
window.model = {
  get: name => state[name],
  set: (name, value) => { state[name] = value; },
  save_changes: () => { window.saved = state.selection; },
  on: (name, listener) => listeners.push([name, listener]),
  sent: (name, value) => {
    state[name] = value;
    for (const [own, listener] of listeners) if (own === "change:" + name) listener();
  },
};
const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
const { default: own } = await import(url);
window.gone = await own.render({ model: window.model, el: document.getElementById("output") });
document.body.dataset.left = Object.keys(window).filter(name => ["d3", "Plot", "views"].includes(name)).join();
</script>"""


@pytest.fixture(scope="module")
def executed(run: Run) -> Any:
    """A notebook that explores a run, executed by a kernel of its own."""
    assert run.path is not None
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    return NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(run.path.parent)}}).execute()


@pytest.fixture(scope="module")
def state(executed: Any) -> dict[str, Any]:
    """What the widget synchronises with its notebook."""
    [output] = executed.cells[1].outputs
    model = output["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
    found: dict[str, Any] = executed.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"][model]
    return found["state"]


def test_a_notebook_shows_the_views(executed: Any, state: dict[str, Any]) -> None:
    assert state["_esm"] == assets.module()
    assert [one["name"] for one in state["runs"]] == ["one", "two"]
    assert state["selection"] == {"block": 3, "prompt": 2}
    assert executed.cells[2].outputs[0]["data"]["text/plain"] == "{'block': 3, 'prompt': 2}"


def mounted(
    chromium: Any, folder: Path, state: dict[str, Any], ground: str = "rgb(255, 255, 255)", **options: Any
) -> Any:
    """The widget in a page that has styles of its own, and gives what a notebook gives."""
    told = json.dumps(state).replace("<", "\\u003c")
    path = folder / "host.html"
    path.write_text(HOST.replace("GROUND", ground).replace("STATE", told), encoding="utf-8")
    return opened(chromium, path, **options)


def colours(one: Opened) -> list[str]:
    """Of a heading of the views and of their ground."""
    found: list[str] = one.page.evaluate(
        """(() => {
          const host = document.querySelector('#output > div'), head = host.shadowRoot.querySelector('h2');
          return [getComputedStyle(head).color, getComputedStyle(host).backgroundColor];
        })()"""
    )
    return found


def test_the_module_draws_the_views_of_the_page(
    chromium: Any, state: dict[str, Any], show: Show, page: Path, tmp_path: Path
) -> None:
    own = {**state, "selection": {"block": 3, "prompt": 2, "token": 5, "boundary": 4}}
    told = ("h2:not(.headline)", ".told", ".prompts tbody", ".text", ".cell", ".map h3")
    beside = show(page, hash_="#block=3&prompt=2&token=5&boundary=4")
    with mounted(chromium, tmp_path, own) as one:
        one.settled()
        wanted = beside.page.locator("#explorer")
        for what in told:
            texts = [found.locator(what).all_inner_texts() for found in (one.page.locator("#explorer"), wanted)]
            assert texts[0] == texts[1] != [], what
        assert one.said == []
        assert one.axe() == []
        # nothing of a page's own is touched, nor does its style reach inside
        assert one.page.evaluate("document.body.dataset.left") == ""
        assert one.page.evaluate("location.hash") == ""
        assert colours(one) == ["rgb(32, 36, 43)", "rgb(254, 254, 254)"]


def test_the_selection_goes_both_ways(chromium: Any, state: dict[str, Any], tmp_path: Path) -> None:
    with mounted(chromium, tmp_path, {**state, "selection": {}}) as one:
        one.settled()
        one.page.get_by_role("slider").focus()
        one.page.keyboard.press("End")
        assert one.page.evaluate("window.saved") == {"block": 4, "prompt": 0}
        one.page.evaluate("model.sent('selection', { block: 1, prompt: 2 })")
        assert one.page.locator(".strip + .told").inner_text().startswith("Block 1: ")
        assert one.page.locator(".prompts .chosen").get_attribute("data-prompt") == "2"
        one.page.evaluate("model.sent('selection', { run: 1, prompt: 1 })")
        one.page.wait_for_function(f"{_INSIDE}.querySelector('.told').textContent.startsWith('No block')")
        assert one.page.locator("#explorer select").first.input_value() == "1"
        assert one.said == []


@pytest.mark.parametrize(("ground", "scheme", "dark"), [("#111", "light", True), ("#fff", "dark", False)])
def test_the_theme_is_that_of_the_notebook(
    chromium: Any, state: dict[str, Any], tmp_path: Path, ground: str, scheme: str, dark: bool
) -> None:
    with mounted(chromium, tmp_path, state, ground, color_scheme=scheme) as one:
        one.settled()
        light, night = ["rgb(32, 36, 43)", "rgb(254, 254, 254)"], ["rgb(230, 233, 238)", "rgb(21, 24, 29)"]
        assert colours(one) == (night if dark else light)
        one.page.evaluate("ground => { document.body.style.background = ground; }", "#fff" if dark else "#111")
        one.page.wait_for_function(
            "name => document.querySelector('#output > div').className === name", arg="light" if dark else "dark"
        )
        assert colours(one) == (light if dark else night)


def test_the_theme_is_read_where_the_widget_ends_up(chromium: Any, state: dict[str, Any], tmp_path: Path) -> None:
    """JupyterLab draws into an element that is in no page yet."""
    with mounted(chromium, tmp_path, state, "#111", color_scheme="light") as one:
        one.settled()
        names = one.page.evaluate(
            """async () => {
              const url = URL.createObjectURL(new Blob([model.get('_esm')], { type: 'text/javascript' }));
              const apart = document.createElement('div');
              await (await import(url)).default.render({ model, el: apart });
              const before = apart.firstElementChild.className;
              document.querySelector('main').append(apart);
              const host = apart.firstElementChild;
              for (let frame = 0; frame < 100 && host.className === before; frame++)
                await new Promise(requestAnimationFrame);
              return [before, host.className];
            }"""
        )
        assert names == ["light", "dark"]


def test_words_stay_out_where_they_are_not_wanted(run: Run) -> None:
    name = "LlamaForCausalLM on given"
    profile = str(profile_html(run))
    assert run.explore(text=False).runs == [{"name": name, "text": content(run, name, text=False), "profile": profile}]
    assert run.explore().runs == [{"name": name, "text": content(run, name), "profile": profile}]
    assert not any(piece in profile for piece in ("<script", "onerror"))
    assert repr(run.explore()) == f"<Explorer of {name}>"
    hostile = synthetic_run(3, prompts=2, model="m\x1b]0;taken\x07\u202e")
    shown = repr(hostile.explore())
    assert shown.startswith(r"<Explorer of m\x1b]0;taken\x07\u202e")
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_without_anywidget_one_sentence_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = util.find_spec
    monkeypatch.setattr(
        "bathyscope.pages.explorer.widget.find_spec", lambda name: None if name == "anywidget" else real(name)
    )
    with pytest.raises(OptionError, match=r"needs anywidget: pip install 'bathyscope\[notebook\]'"):
        run.explore()


def test_every_run_has_a_name(run: Run) -> None:
    with pytest.raises(OptionError, match=r"names=\['a'\] is not allowed; give 2 names, one for each run"):
        run.explore(run, names=["a"])


def test_viewers_without_scripts_see_a_picture_and_the_conclusion(executed: Any, run: Run) -> None:
    """Sites that render notebooks run no widget; the output holds what they can show."""
    [output] = executed.cells[1].outputs
    assert base64.b64decode(output.data["image/png"]).startswith(b"\x89PNG")
    html = output.data["text/html"]
    assert "<script" not in html
    assert "data:image/png;base64," in html
    assert "one" in html
    assert "application/vnd.jupyter.widget-view+json" in output.data
    panel = picture_panel(run)
    assert panel is not None
    assert panel.name == "profile"
