"""The skyline in a real browser: each word's own guesses, in the picture, in the panel, by hand and by keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.browser import Opened, Show
from support.explored import LENGTHS
from support.synthetic import replaced, synthetic_run, without
from support.synthetic_tokens import with_places
from support.worded import worded_run

import bathyscope
from bathyscope.core.text import visible
from bathyscope.runs.run import Run

PROSE = (
    "<s>",
    *("The", " old", " house", " stood", " at", " the", " edge", " of", " the", " village", ",", " where"),
    *(" the", " road", " turned", ".", "\n\n", "Every", " evening", " a", " light", " was", " seen", ".", "\n", "End"),
)
HOSTILE = (
    "<b>bold</b>",
    " \x07bell",
    "\u202eturned",
    " ok",
    "\x1b[31m",
    "\ufffd",
    " 👩\u200d🚀",
    " e\u0301",
    "\t",
    "∅",
)
HEBREW = ("שלום", " עולם", ",", " מה", " שלומך", " היום", "?")
TEXTS = (PROSE, HEBREW, HOSTILE, ("word",), tuple(f" w{n % 40}" for n in range(60)))
SPECIALS = ((0,), (), (), (), ())

_CELLS = """() => [...document.querySelectorAll('.text [role=option]')].map(option => {
  const canvas = option.querySelector('canvas'), pen = canvas.getContext('2d'), blocks = BLOCKS;
  const step = canvas.height / blocks;
  return [Number(option.dataset.word), [...Array(blocks).keys()].map(block => {
    const [red, green, blue, alpha] = pen.getImageData(0, Math.floor((blocks - 1 - block + 0.25) * step), 1, 1).data;
    return alpha === 0 ? '' : Math.max(red, green, blue) - Math.min(red, green, blue) > 60 ? 'final' : 'another';
  })];
})"""


@pytest.fixture(scope="module")
def worded() -> Run:
    return worded_run(TEXTS, specials=SPECIALS)


def write_page(run: Run, folder: Path, **options: Any) -> Path:
    """A page of the run's views with few figures."""
    return bathyscope.report([run], folder / "page.html", variables="kl_final_lens", **options)


@pytest.fixture(scope="module")
def words_page(worded: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(worded, tmp_path_factory.mktemp("worded"))


def cells(opened: Opened, blocks: int) -> dict[int, list[str]]:
    """By word, what each cell of its column shows, block 0 first."""
    return dict(opened.page.evaluate(_CELLS.replace("BLOCKS", str(blocks))))


def to_prompt(opened: Opened, prompt: int, token: int | None = None) -> None:
    opened.page.evaluate(f"location.hash = '#prompt={prompt}{'' if token is None else f'&token={token}'}'")
    opened.page.wait_for_function(f"document.querySelector('.skyline select').value === '{prompt}'")
    if token is not None:
        opened.page.wait_for_selector(f"#token-{token}[aria-selected=true]")


def expected_columns(tokens: xr.Dataset, prompt: int) -> dict[int, list[str]]:
    """The guess at position t is of the word at t + 1."""
    data = tokens.isel(prompt=prompt)
    first = data["top_id"].isel(top=0).transpose("boundary", "token").values
    columns = {0: [""] * (len(first) - 1)}
    for word in range(1, int(data["n_tokens"])):
        column = first[:, word - 1]
        columns[word] = ["final" if guess == column[-1] else "another" for guess in column[1:]]
    return columns


@pytest.mark.parametrize("prompt", range(len(TEXTS)))
def test_columns_are_the_guesses_in_the_place_of_each_word(
    look: Show, words_page: Path, worded: Run, prompt: int
) -> None:
    opened = look(words_page)
    to_prompt(opened, prompt)
    expected = expected_columns(worded["tokens"], prompt)
    for special in SPECIALS[prompt]:
        del expected[special]
    assert cells(opened, 5) == expected


def test_marks_and_counts_are_those_of_the_run(look: Show, words_page: Path, worded: Run) -> None:
    opened = look(words_page)
    for prompt in (0, 4):
        to_prompt(opened, prompt)
        data, ids = worded["tokens"].isel(prompt=prompt), worded.prompts[prompt].ids
        final = data["top_id"].isel(top=0, boundary=-1).values
        positions = [word - 1 for word in range(1, len(ids)) if word not in SPECIALS[prompt]]
        missed = [position + 1 for position in positions if final[position] != ids[position + 1]]
        marked = "[...document.querySelectorAll('.text .not-text')].map(option => Number(option.dataset.word))"
        assert opened.page.evaluate(marked) == missed
        assert 0 < len(missed) < len(positions)
        late = sum(int(data["prediction_depth"][position]) == 5 for position in positions)
        summary = f"{len(positions) - len(missed)} of {len(positions)} words are the final guess; {late} "
        assert opened.page.locator(".skyline .told").inner_text().startswith(summary)
        for position in positions:
            name = opened.page.locator(f"#token-{position + 1}").get_attribute("aria-label")
            assert name.endswith(f"after {int(data['prediction_depth'][position])} of 5 blocks"), name


def test_the_panel_has_the_numbers_of_the_run(look: Show, words_page: Path, worded: Run) -> None:
    opened, tokens = look(words_page), worded["tokens"]
    pieces = dict(zip(tokens["id"].values.tolist(), tokens["piece"].values.tolist()))
    for word in (1, 7, 12, 16):
        to_prompt(opened, 0, word)
        data = tokens.isel(prompt=0, token=word - 1)
        rows = [row.split("\t") for row in opened.page.locator(".guesses tbody tr").all_inner_texts()]
        assert [int(boundary) for boundary, *_ in rows] == list(range(5, -1, -1))
        for boundary, guess, chance in rows:
            first = data.isel(boundary=int(boundary), top=0)
            assert guess == visible(pieces[int(first["top_id"])])
            assert float(chance.removesuffix(" %")) == pytest.approx(100 * float(first["top_probability"]), abs=0.051)
        about = opened.page.locator(".about-word").inner_text()
        assert f"In place of “{PROSE[word].replace(' ', '␣')}”" in about
        depth = int(data["prediction_depth"])
        when = {0: "before any block", 5: "only after the last of 5 blocks"}.get(depth, f"after {depth} of 5 blocks")
        assert when in about
        chance = float(data["next_probability"][-1])
        shown = re.search(r"(?:as in the text \(|the text’s word gets )(\d+)\s%", about)
        assert shown, about
        assert float(shown[1]) == pytest.approx(100 * chance, abs=0.6)
        costs = {int(block): cost for block, cost in zip(data["dropped"], data["added_loss"].values) if cost >= 0.05}
        named = [(int(block), float(cost)) for block, cost in re.findall(r"block (\d+) \(([+−]\d+\.\d+)\)", about)]
        assert [block for block, _ in named] == sorted(costs, key=lambda block: -costs[block])[:3]
        assert all(cost == pytest.approx(costs[block], abs=0.0051) for block, cost in named)


def test_the_word_that_costs_a_hundred_nats_is_the_one_shaded(show: Show, run: Run, tmp_path: Path) -> None:
    """Without block 2 the loss stands at the token before the word, which predicts it."""
    tokens = run["tokens"].copy(deep=True)
    added = tokens["added_loss"]
    added.values[np.isfinite(added.values)] = 0.0
    dims = {"prompt": 1, "dropped": 2, "token": 4}
    added.values[tuple(dims.get(str(dim), slice(None)) for dim in added.dims)] = 100.0
    planted = Run(replaced(run, "tokens", tokens).tree, run.manifest, files=run.files)
    opened = show(write_page(planted, tmp_path), hash_="#block=2&prompt=1")
    shades = """[...document.querySelectorAll('.text .word')].map(word => getComputedStyle(word).backgroundColor)"""
    colours = opened.page.evaluate(shades)
    assert len(colours) == LENGTHS[1]
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert [word for word, colour in enumerate(colours) if word and colour != paper] == [5]
    assert (
        "loss added without block 2; orange more, green less, full at 100 nats"
        in opened.page.locator(".skyline .told").inner_text()
    )
    about = opened.page.locator(".about-word")
    for word, needs in (
        (5, "Needs most: block 2 (+100.0) nats."),
        (4, "No block adds 0.05 nats"),
        (6, "No block adds"),
    ):
        opened.page.locator(f"#token-{word}").click()
        opened.page.mouse.move(0, 0)
        assert needs in about.inner_text()
    assert opened.page.evaluate("location.hash") == "#block=2&prompt=1&token=6"
    # nothing predicts the first word
    opened.page.locator("#token-0").click()
    opened.page.mouse.move(0, 0)
    assert "Nothing stands before the first word" in about.inner_text()


def test_special_tokens_are_hidden_and_lines_end_as_in_the_text(look: Show, words_page: Path) -> None:
    opened = look(words_page)
    to_prompt(opened, 0)
    lines = [line.replace("\n", "") for line in opened.page.locator(".text .line").all_inner_texts()]
    text = "".join(PROSE[1:])
    assert [line.replace("⏎", "") for line in lines] == [line for line in text.split("\n") if line]
    assert "<s>" not in "".join(lines)
    assert opened.page.locator("#token-0").count() == 0


def test_named_places_stand_below_their_words(show: Show, worded: Run, tmp_path: Path) -> None:
    opened = show(write_page(with_places(worded, "drop"), tmp_path), hash_="#prompt=0&token=4")
    options = opened.page.locator(".text [role=option]")
    names = {one.get_attribute("data-word"): one.locator(".named") for one in options.all()}
    assert {word: name.inner_text() for word, name in names.items() if name.count()} == {"2": "‹city›", "4": "‹last›"}
    assert opened.page.locator(".about-word h3").inner_text().endswith("‹last›")
    assert "‹last›:" in (opened.page.locator("#token-4").get_attribute("aria-label") or "")


def test_hover_shows_a_word_and_leaves_the_chosen_one(show: Show, words_page: Path) -> None:
    opened = show(words_page, hash_="#prompt=0&token=3")
    heading = opened.page.locator(".about-word h3")
    assert heading.inner_text() == "In place of “␣house”"
    opened.page.locator("#token-8").hover()
    assert heading.inner_text() == "In place of “␣of”"
    assert opened.page.evaluate("location.hash") == "#prompt=0&token=3"
    opened.page.mouse.move(0, 0)
    assert heading.inner_text() == "In place of “␣house”"


def test_arrow_keys_walk_over_the_words_with_one_stop_of_the_tab_key(show: Show, words_page: Path) -> None:
    opened = show(words_page, hash_="#prompt=0", width=700)
    stops = "[...document.querySelectorAll('.text [role=option][tabindex=\"0\"]')].map(option => option.id)"
    focused = "document.activeElement.id"
    assert opened.page.evaluate(stops) == ["token-1"]
    opened.page.locator("#token-1").focus()
    assert opened.page.locator(".about-word h3").inner_text() == "In place of “The”"
    keys = opened.page.keyboard
    for key, word in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", 26), ("ArrowRight", 26)):
        keys.press(key)
        assert opened.page.evaluate(focused) == f"token-{word}"
        assert opened.page.evaluate(stops) == [f"token-{word}"]
        assert opened.page.evaluate("location.hash") == f"#prompt=0&token={word}"
    keys.press("Home")
    keys.press("ArrowLeft")
    assert opened.page.evaluate(focused) == "token-1"
    tops = []
    for _ in range(3):
        tops.append(opened.page.evaluate("document.activeElement.getBoundingClientRect().top + scrollY"))
        keys.press("ArrowDown")
    assert tops == sorted(set(tops)), tops
    for _ in range(9):
        keys.press("ArrowUp")
    assert opened.page.evaluate("document.activeElement.getBoundingClientRect().top + scrollY") == tops[0]
    keys.press("Escape")
    assert opened.page.evaluate("location.hash") == "#prompt=0"
    keys.press("Enter")
    assert "token=" in opened.page.evaluate("location.hash")
    keys.press(" ")
    assert opened.page.evaluate("location.hash") == "#prompt=0"


def test_text_from_right_to_left_runs_so_and_so_do_its_arrow_keys(show: Show, words_page: Path) -> None:
    opened = show(words_page, hash_="#prompt=1")
    lefts = opened.page.evaluate(
        "[...document.querySelectorAll('.text [role=option]')].map(option => option.getBoundingClientRect().left)"
    )
    assert lefts == sorted(lefts, reverse=True)
    opened.page.locator("#token-2").focus()
    opened.page.keyboard.press("ArrowLeft")
    assert opened.page.evaluate("document.activeElement.id") == "token-3"


def test_letters_that_would_act_are_written_out(look: Show, words_page: Path) -> None:
    opened = look(words_page)
    to_prompt(opened, 2)
    text = opened.page.locator(".text").inner_text()
    assert not set("\x07\u202e\x1b") & set(text)
    for part in ("<b>bold</b>", "\\x07bell", "\\u202eturned", "👩\u200d🚀", "e\u0301"):
        assert part in text
    assert opened.page.locator(".text b").count() == 0


def test_a_finger_chooses_a_word_and_sees_its_guesses(show: Show, words_page: Path) -> None:
    opened = show(words_page, width=400, hash_="#prompt=4", has_touch=True, is_mobile=True)
    opened.page.locator("#token-20").tap()
    assert opened.page.evaluate("location.hash") == "#prompt=4&token=20"
    heading = opened.page.locator(".about-word h3")
    assert heading.inner_text() == "In place of “␣w20”"
    opened.page.wait_for_timeout(50)
    # the panel stands at the lower edge of the screen while words are above it
    box, screen = heading.bounding_box(), opened.page.viewport_size
    assert 0 <= box["y"] <= screen["height"] - box["height"]
    opened.page.get_by_role("button", name="Next word").tap()
    assert heading.inner_text() == "In place of “␣w21”"
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert min(opened.page.evaluate("[...document.querySelectorAll('.steps button')].map(b => b.offsetHeight)")) >= 44


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "dark")])
def test_axe_finds_nothing(show: Show, words_page: Path, width: int, scheme: str) -> None:
    opened = show(words_page, width=width, color_scheme=scheme, hash_="#block=1&prompt=0&token=5")
    assert opened.axe() == []


def test_the_grid_opens_on_demand(show: Show, words_page: Path) -> None:
    opened = show(words_page, hash_="#prompt=0&token=5")
    grid = opened.page.locator(".lens-grid")
    assert not grid.locator("canvas").is_visible()
    grid.locator("summary").click()
    opened.page.wait_for_selector(".cell h4")
    assert opened.page.locator(".cell h4").inner_text() == "In place of “␣at”, token 5, at boundary 5"
    painted = "(() => { const c = document.querySelector('.grid canvas'); return c.width * c.height })()"
    assert opened.page.evaluate(painted) > 1000


def test_the_jacobian_lens_is_a_switch(show: Show, worded: Run, tmp_path: Path) -> None:
    """Its guesses at a boundary are the final one of the plain lens, or another; it reads no first position."""
    tokens = worded["tokens"].copy(deep=True)
    first = tokens["top_id"].isel(top=0, drop=True)
    final = first.isel(boundary=-1)
    other = (final + 1) % tokens.sizes["id"]
    late = tokens["boundary"] >= 2
    is_read = (
        (tokens["token"] > 0)
        if "token" in tokens.coords
        else xr.DataArray(np.arange(tokens.sizes["token"]) > 0, dims="token")
    )
    tokens["jacobian_id"] = xr.where(late & is_read, final, xr.where(is_read, other, -1)).transpose(*first.dims)
    chance = xr.where(is_read & first.notnull() & (first >= 0), 0.625, np.nan)
    tokens["jacobian_probability"] = chance.transpose(*first.dims)
    with_lens = Run(replaced(worded, "tokens", tokens).tree, worded.manifest, files=worded.files)
    opened = show(write_page(with_lens, tmp_path), hash_="#prompt=4&token=9")
    assert cells(opened, 5) == expected_columns(worded["tokens"], 4)
    opened.page.get_by_label("Jacobian lens").check()
    found = cells(opened, 5)
    assert found[1] == [""] * 5
    assert all(found[word] == ["another"] + ["final"] * 4 for word in range(2, 60))
    rows = [row.split("\t") for row in opened.page.locator(".guesses tbody tr").all_inner_texts()]
    assert [chance.strip() for _, _, chance in rows] == ["62.5 %"] * 6
    assert "after 2 of 5 blocks" in opened.page.locator(".about-word").inner_text()


def test_runs_without_a_jacobian_lens_have_no_switch(look: Show, words_page: Path) -> None:
    assert look(words_page).page.get_by_label("Jacobian lens").count() == 0


def missing_values() -> Run:
    """No value at one boundary of one word, and none at all at the last boundary of another."""
    run = worded_run([PROSE], specials=[[0]])
    tokens = run["tokens"].copy(deep=True)
    at = {"prompt": 0, "boundary": 3, "token": 4}
    for name, missing in (("top_probability", np.nan), ("top_id", -1)):
        values = tokens[name].astype(float if name == "top_probability" else int)
        values[at] = missing
        values[{"prompt": 0, "boundary": 5, "token": 8}] = missing
        tokens[name] = values
    return Run(replaced(run, "tokens", tokens).tree, run.manifest, files=run.files)


def test_missing_values_are_blank_and_said(show: Show, tmp_path: Path) -> None:
    opened = show(write_page(missing_values(), tmp_path), hash_="#token=5")
    assert cells(opened, 5)[5][2] == ""
    assert "not read" in opened.page.locator(".guesses").inner_text()
    opened.page.locator("#token-9").click()
    opened.page.mouse.move(0, 0)
    assert "The lens has no value here." in opened.page.locator(".about-word").inner_text()
    assert opened.page.locator("#token-9").get_attribute("aria-label") == "␣the: no guess"


def test_words_that_a_sample_left_out_say_so(show: Show, tmp_path: Path) -> None:
    run = worded_run([PROSE])
    tokens = run["tokens"].copy(deep=True)
    tokens["added_loss"].values[:, :, 6:] = np.nan
    sampled = Run(replaced(run, "tokens", tokens).tree, run.manifest, files=run.files)
    opened = show(write_page(sampled, tmp_path), hash_="#block=1&token=10")
    assert "Which blocks it needs was not read of this word." in opened.page.locator(".about-word").inner_text()
    style = "document.querySelector('#token-10 .word').style.background"
    assert opened.page.evaluate(style) == ""
    assert opened.page.evaluate(style.replace("10", "3")) != ""


RUNS = {
    "one block": (lambda: worded_run([PROSE], L=1), 1),
    "126 blocks": (lambda: worded_run([PROSE], L=126), 126),
    "200 prompts": (lambda: worded_run([PROSE[: 3 + n % 9] for n in range(200)], L=3), 3),
    "no drop": (lambda: worded_run([PROSE], drop=False), 5),
}


@pytest.mark.parametrize("which", RUNS)
def test_every_kind_of_run_has_its_skyline(show: Show, tmp_path: Path, which: str) -> None:
    make, blocks = RUNS[which]
    run = make()
    last = len(run.prompts) - 1
    opened = show(write_page(run, tmp_path), width=400, hash_=f"#prompt={last}&token=2")
    assert cells(opened, blocks) == expected_columns(run["tokens"], last)
    rows = opened.page.locator(".guesses tbody tr")
    assert rows.count() == blocks + 1
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    if which == "no drop":
        assert "survey with drop" in opened.page.locator(".about-word").inner_text()


def test_a_run_without_tokens_says_so_in_a_sentence(show: Show, tmp_path: Path) -> None:
    run = without(synthetic_run(3, 2), "repeat", "swap", "effective_depth", "lens", "skip")
    opened = show(bathyscope.report([run], tmp_path / "page.html"))
    text = opened.page.locator("[aria-labelledby=view-text]").inner_text()
    assert text.split("\n")[-1] == "This run keeps no single words: survey with lens and tokens among the measures."
    assert opened.page.locator(".lens-grid").count() == 0


def test_prompts_and_tokens_that_are_not_there_are_said(show: Show, tmp_path: Path, run: Run) -> None:
    """The fifth prompt of the run has no tokens; a text is longer than what was kept."""
    opened = show(write_page(run, tmp_path), hash_="#prompt=4")
    told = opened.page.locator(".skyline .told")
    assert told.inner_text().startswith(
        "The run keeps the words of its first 4 prompts, and this one is not among them"
    )
    cut = show(write_page(worded_run([PROSE], length=10), tmp_path / "cut"))
    assert (
        "The run keeps no more than the first 10 tokens of this prompt"
        in cut.page.locator(".skyline .told").inner_text()
    )
    assert cut.page.locator(".text [role=option]").count() == 10


def test_without_words_the_columns_are_the_same(show: Show, worded: Run, tmp_path: Path) -> None:
    """Ids are not on the page, and which guesses are the text is known by their probabilities."""
    opened = show(write_page(worded, tmp_path, text=False), hash_="#prompt=4")
    assert cells(opened, 5) == expected_columns(worded["tokens"], 4)
    final = worded["tokens"]["top_id"].isel(prompt=4, top=0, boundary=-1).values
    ids = worded.prompts[4].ids
    missed = [word for word in range(1, len(ids)) if final[word - 1] != ids[word]]
    marked = "[...document.querySelectorAll('.text .not-text')].map(option => Number(option.dataset.word))"
    assert opened.page.evaluate(marked) == missed
    assert "w3" not in opened.page.locator(".skyline").inner_text()


@pytest.mark.parametrize(("prompts", "blocks"), [(12, 6), pytest.param(40, 30, marks=pytest.mark.thorough)])
def test_a_page_of_many_words_holds_those_of_one_prompt_at_a_time(
    show: Show, tmp_path: Path, prompts: int, blocks: int
) -> None:
    """Prompts of 512 tokens: a megabyte and 25 bytes for a token at a boundary; the document stays small."""
    rng = np.random.default_rng(0)
    words = [f" w{n}" for n in range(300)]
    run = worded_run([[words[n] for n in rng.integers(300, size=512)] for _ in range(prompts)], L=blocks)
    path = write_page(run, tmp_path)
    assert path.stat().st_size <= 1_000_000 + 25 * prompts * 512 * (blocks + 1)
    opened = show(path, hash_=f"#prompt={prompts - 1}&token=511")
    assert opened.page.locator(".text [role=option]").count() == 512
    # fewer than all words would need, with a node each
    assert opened.page.evaluate("document.querySelectorAll('#explorer *').length") < 12 * 512
    assert opened.page.locator(".about-word h3").inner_text().startswith("In place of “␣w")
