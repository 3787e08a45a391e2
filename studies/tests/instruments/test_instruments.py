"""The instruments tried out: texts, and a page that says what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import waves, zoo

from bathyscope import load, prune
from bathyscope.errors import OptionError
from bathyscope.extend import bundled_model
from bathyscope.extend.statistics import Sampling
from studies.instruments import command, page, writing
from studies.instruments.choices import excess_intervals, simulated_coverage
from studies.instruments.texts import token_windows
from studies.instruments.writing import last_number

ROOT = Path(__file__).parents[3]


def test_the_page_says_what_is_stored() -> None:
    text = (ROOT / "docs" / "instruments.md").read_text(encoding="utf-8")
    assert page.rewrite(text, command.RESULTS) == text


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(OptionError, match=r"The page has no place for lenses; give it the lines"):
        page.rewrite("# Nothing", command.RESULTS)


def test_rows_hold_the_stored_numbers(tmp_path: Path) -> None:
    kl = {reader: [[value, value - 1, value + 1]] * 3 for reader, value in (("lens", 3.0), ("jacobian", 2.0))}
    lens = {
        "n_blocks": 2,
        "kl": kl,
        "kl_lens_less_jacobian": [[1.0, 0.5, 1.5]] * 3,
        **{name: [0.5, 0.25, None] for name in ("half_agreement", "half_agreement_rest", "identity_share")},
        "sampling_error": [0.0] * 3,
        **dict.fromkeys(("band_first", "band_first_low", "band_first_high"), 1.0),
        **dict.fromkeys(("band_last", "band_last_low", "band_last_high"), 2.0),
        **{"band_gain": 0.3, "band_gain_low": 0.1, "band_gain_high": 0.5, "band_p": 0.01},
    }
    (tmp_path / "lenses_m_trained.json").write_text(json.dumps(lens))
    (tmp_path / "lenses_m_untrained-0.json").write_text(json.dumps({**lens, "band_first": None, "band_p": 0.5}))
    text = "\n".join(line for name in page.TABLES for line in (page.MARK.format(name=name), page.END.format(name=name)))
    written = page.rewrite(text, tmp_path)
    band = "band from boundary 1 (1 to 1) to 2 (2 to 2), gain 0.3 nats (0.1 to 0.5), p ≤ 0.01"
    assert f"{band}. Untrained: no band (p = 0.50)." in written
    assert "| 0 | 3.00 (2.00 to 4.00) | – | 2.00 (1.00 to 3.00) | 1.00 (0.50 to 1.50) | 3.00 to 3.00 |" in written
    assert page.rewrite(written, tmp_path) == written


def test_windows_do_not_overlap(tmp_path: Path) -> None:
    model = load(bundled_model(), device="cpu", dtype="float32")
    file = tmp_path / "text.txt"
    file.write_text(" ".join(f"word {n}" for n in range(400)), encoding="utf-8")
    first, second = (token_windows(model, file, 3, 20, share) for share in ((0.0, 0.5), (0.5, 1.0)))
    ids = model.tokenizer(file.read_text(), add_special_tokens=False)["input_ids"]
    assert first[0] == ids[:20]
    starts = [window[0] for window in (*first, *second)]
    assert len(starts) == 6
    assert all(len(window) == 20 for window in (*first, *second))
    with pytest.raises(ValueError, match="too few for 300 windows of 20"):
        token_windows(model, file, 300, 20)


@pytest.mark.parametrize(
    ("text", "number"),
    [("6 * 7 = 42 eggs", 42.0), ("$1,250.50 in all.", 1250.5), ("-3", -3.0), ("none", None), ("#### 18", 18.0)],
)
def test_the_last_number_is_the_answer(text: str, number: float | None) -> None:
    assert last_number(text) == number


def test_simulated_intervals_are_those_of_a_transfer_table() -> None:
    model, names = waves.loaded("llama"), ("code", "prose")
    calibration, test = (
        {name: zoo.prompts(model.hf, (12, 9, 10, 11), 2 * role + n) for n, name in enumerate(names)} for role in (0, 1)
    )
    plan = prune(model, calibration, test, drop=2, random=2, resamples=100, progress=False)
    choices = [*(f"choice from {name}" for name in names), "choice"]
    cost_CP = plan.data["cost"].sel(candidate=choices).values
    of_prompt = [str(name).partition("/")[0] for name in plan.data["prompt_id"].values]
    costs = [cost_CP[:, [own == name for own in of_prompt]] for name in names]
    low, high = excess_intervals(costs, Sampling(100))
    table = plan.transfer.set_index(["chosen_on", "domain"])
    for row, chosen_on in enumerate((*names, "all domains")):
        for column, name in enumerate(names):
            ends = table.loc[(chosen_on, name), ["transfer_low", "transfer_high"]].tolist()
            assert [low[row, column], high[row, column]] == pytest.approx(ends)
    assert 0 < simulated_coverage(plan, draws=3, resamples=20)[1] <= 4


@pytest.mark.thorough
def test_untrained_models_read_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(ROOT / "checkpoints" / "depth_6", device="cpu", dtype="float32")
    model.tokenizer.chat_template = "{{ messages[0]['content'] }}"
    monkeypatch.setattr(writing, "stored_smollm2", lambda: "smollm2")
    monkeypatch.setattr(writing, "load", lambda *_, **__: model)
    (tmp_path / "gsm8k").mkdir()
    rows = [{"question": f"How much is {n} and 1?", "answer": f"{n} + 1\n" * (n % 3) + f"#### {n}"} for n in range(6)]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "gsm8k" / "test_first600.jsonl").write_text(lines, encoding="utf-8")
    result = writing.write_word_problems(6, 3, 1, tmp_path, tmp_path / "out")
    assert (result["prompts"], result["tokens"]) == (6, 3)
    assert result["readings"].keys() == {"trained", "untrained-0"}


def test_unknown_rows_are_refused() -> None:
    names = ["bundled/trained", "bundled/untrained-0", "smollm2/trained"]
    assert command._chosen(names, ["bundled"]) == names[:2]
    assert command._chosen(names, ["smollm2/trained"]) == names[2:]
    assert command._chosen(names, []) == names
    with pytest.raises(OptionError, match=r"There is no 'gpt5'; give bundled/trained"):
        command._chosen(names, ["gpt5"])
