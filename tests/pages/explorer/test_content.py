"""What the page unpacks is what the run holds, read back here by another way than the page's script."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from support import waves, zoo
from support.packed import read
from support.synthetic import in_books, replaced, synthetic_run
from support.synthetic_tokens import complete_run, with_places
from support.word_tokenizer import word_tokenizer
from support.worded import worded_run

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.pages.explorer import assets
from bathyscope.pages.explorer.content import content
from bathyscope.pages.explorer.pack import Pack
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling


@pytest.mark.parametrize(("kind", "error"), [("f16", 5e-4), ("f24", 1.6e-5), ("permille", None), ("whole", 0.0)])
def test_numbers_keep_their_digits(kind: Any, error: float | None) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 1, (3, 40)) * np.array([[1e-3], [1.0], [300.0]])
    if kind == "permille":
        values = rng.uniform(0, 1, (3, 40))
    if kind == "whole":
        values = rng.integers(0, 90_000, (3, 40))
    else:
        values[0, 0], values[1, 1] = np.nan, 0.0
    pack = Pack()
    pack.add("one", [[1.0]], "f24")
    pack.add("values", values, kind)
    _, found = read(pack.text({}))
    if error is None:
        np.testing.assert_allclose(found["values"], values, atol=5.1e-4)
    else:
        np.testing.assert_allclose(found["values"], values, rtol=error, atol=4e-8 if kind == "f16" else 0)


def test_numbers_beyond_half_precision_are_kept() -> None:
    pack = Pack()
    pack.add("values", [1e9, -3e5, np.nan], "f16")
    np.testing.assert_allclose(read(pack.text({}))[1]["values"], [1e9, -3e5, np.nan], rtol=1e-5)


@pytest.fixture(scope="module")
def run() -> Run:
    """Three prompts, of which two have tokens."""
    ids = zoo.prompts(zoo.build("llama"), (9, 6, 8))
    measures = ["residual", "lens", "skip", "drop", "tokens"]
    return bathyscope.survey(waves.loaded("llama"), ids, measures, tokens={"prompts": 2, "length": 7}, progress=False)


def test_tokens_of_the_page_are_those_of_the_run(run: Run) -> None:
    meta, found = read(content(run, "one"))
    tokens, data = meta["tokens"], run["tokens"]
    assert (tokens["prompts"], tokens["lengths"], tokens["boundaries"]) == ([0, 1], [7, 6], 6)
    for place, (prompt, token) in enumerate((p, t) for p in (0, 1) for t in range(tokens["lengths"][p])):
        own = data.isel(prompt=prompt, token=token)
        words = [[tokens["words"][int(n)] for n in row] for row in found["topWord"][:, :, place]]
        assert words == own.top_id.transpose("top", "boundary").values.astype(str).tolist()
        np.testing.assert_allclose(found["kl"][:, place], own.kl_final_lens, rtol=5e-4, atol=4e-8)
        np.testing.assert_allclose(found["added"][:, place], own.added_loss, rtol=5e-4, atol=4e-8)
        np.testing.assert_allclose(found["topProbability"][:, :, place], own.top_probability.T, atol=5.1e-4)


def test_words_of_prompts_with_tokens_are_whole_and_say_what_is_special() -> None:
    """All prompts with tokens, and not the first sixteen alone; special tokens by their places."""
    run = worded_run([["<s>", *[f" w{n}" for n in range(300)]]] * 20, specials=[[0]] * 20)
    meta, found = read(content(run, "one"))
    assert sorted(map(int, meta["pieces"])) == list(range(20))
    assert len(meta["pieces"]["19"]) == 301
    assert meta["specials"] == {str(number): [0] for number in range(20)}
    final = run["tokens"]["top_id"].isel(top=0, boundary=-1).values
    expected = [final[prompt, :-1] == run.prompts[prompt].ids[1:] for prompt in range(20)]
    np.testing.assert_array_equal(found["hit"].reshape(20, 301)[:, :-1], expected)
    assert not found["hit"].reshape(20, 301)[:, -1].any()


def test_tokens_of_named_places_have_their_names() -> None:
    run = with_places(worded_run([["<s>", *[f" w{n}" for n in range(9)]]] * 3, specials=[[0]] * 3), "drop")
    meta, _ = read(content(run, "one"))
    later = {"3": "‹city›", "4": "‹city› ‹last›"}
    assert meta["places"] == {"0": {"2": "‹city›", "4": "‹last›"}, "1": later, "2": later}
    # a name may be a text of the prompts
    assert read(content(run, "one", text=False))[0]["places"] == {}
    assert "of a single token" not in str(meta["maps"])


def test_maps_of_tokens_say_what_prompts_of_longer_places_lack() -> None:
    run = complete_run(5, 3)
    erasure = run["erasure"]
    places = {f"place_{end}": (("prompt", "place"), np.full((3, 1), at)) for end, at in (("start", 3), ("stop", 5))}
    run = replaced(run, "erasure", erasure.assign(places).assign_coords(place=["city"]))
    maps = {one["label"]: one["others"] for one in read(content(run, "one"))[0]["maps"]}
    assert maps["erasure"].startswith("it has no answer or is too long, has no named place of a single token, or the")
    assert maps["integrated gradients, block"].startswith("it has no answer or is too long, or the page holds")


def test_prompts_are_shown_from_where_they_differ() -> None:
    """At the beginning of a word, without special tokens; short beginnings stay, and so does the text of one prompt."""
    begin = ("<s>", "Given", " the", " following", " problem", ",")
    texts = [(*begin, f" add\n{n}0", " and", " one") for n in (1, 12)]
    data, _ = read(content(worded_run(texts, specials=[[0]] * 2), "one"))
    assert data["prompts"]["excerpts"] == ["… add 10 and one", "… add 120 and one"]
    alone, _ = read(content(worded_run(texts[:1], specials=[[0]]), "one"))
    assert alone["prompts"]["excerpts"] == ["Given the following problem, add 10 and one"]
    short, _ = read(content(worded_run([("The", " cat"), ("The", " dog")]), "one"))
    assert short["prompts"]["excerpts"] == ["The cat", "The dog"]
    assert read(content(worded_run(texts), "one", text=False))[0]["prompts"]["excerpts"] is None


def test_maps_and_means_of_the_page_are_those_of_the_run(run: Run) -> None:
    meta, found = read(content(run, "one"))
    assert [one["key"] for one in meta["maps"]] == ["skip-effect-future", "skip-effect-all"]
    wanted = run["skip"].effect_all.sel(part="block", reduction=["mean", "p95"])
    np.testing.assert_allclose(found["skip-effect-all-mean"], wanted.mean("prompt"), rtol=1.6e-5)
    np.testing.assert_allclose(found["skip-effect-all-each"], wanted.transpose("reduction", "prompt", ...), rtol=1.6e-5)
    (drop,) = [one for one in meta["blocks"] if one["key"] == "drop"]
    np.testing.assert_allclose(drop["mean"], (run["drop"].loss - run["drop"].baseline_loss).mean("prompt"))
    assert meta["prompts"]["ids"] == ["0", "1", "2"]


def test_intervals_of_the_page_resample_clusters_and_the_page_says_so() -> None:
    run, member = in_books(synthetic_run(3, prompts=6), "aabbcd"), np.array([0, 0, 1, 1, 2, 3])
    (meta, _), (plain, _) = read(content(run, "x", cluster="book")), read(content(run, "x"))
    assert (meta["resampled"], plain["resampled"]) == ("clusters of prompts by book", "prompts")
    added = (run["drop"].loss - run["drop"].baseline_loss).values
    own, alone = ({one["key"]: one for one in told["blocks"]}["drop"] for told in (meta, plain))
    for block in range(3):
        assert (own["low"][block], own["high"][block]) == pytest.approx(
            mean_interval(added[:, block], Sampling(cluster=member))
        )
    assert own["low"] != alone["low"]
    with pytest.raises(OptionError, match="have no label 'page'"):
        content(run, "x", cluster="page")


def test_words_stand_in_a_page_only_where_they_are_wanted() -> None:
    words = [f"word{number}" for number in range(zoo.build("llama").config.vocab_size)]
    model = bathyscope.load(zoo.build("llama"), tokenizer=word_tokenizer(words))
    run = bathyscope.survey(model, ["word3 word5 word4 word9"], ["lens", "tokens"], progress=False)
    told, _ = read(content(run, "one"))
    assert "word5" in "".join(told["pieces"]["0"])
    assert any("word" in word for word in told["tokens"]["words"])
    silent = json.dumps(read(content(run, "one", text=False))[0])
    assert "word5" not in silent
    assert read(content(run, "one", text=False))[0]["pieces"] is None


def test_runs_without_tokens_or_maps_have_the_rest() -> None:
    run = synthetic_run(3, prompts=2)
    meta, _ = read(content(run, "x"))
    assert meta["tokens"] is None
    assert meta["nBlocks"] == 3


def test_libraries_are_the_ones_that_the_manifest_names() -> None:
    folder = files("bathyscope.pages.explorer") / "vendor"
    told = {one["file"]: one["sha256"] for one in assets.manifest()}
    assert set(told) == set(assets.LIBRARIES)
    for name, wanted in told.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted
        assert "Permission to use, copy, modify" in (folder / f"{name.split('.')[0]}.LICENSE").read_text()


def test_the_script_ends_no_element_early() -> None:
    assert "</script" not in assets.script().lower()
    assert "<!--" not in assets.script()
