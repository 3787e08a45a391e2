"""A survey from end to end on tiny models: on disk and in memory, interrupted, refused, and without a trace."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, warm, waves, zoo
from torch import nn

import bathyscope
from bathyscope import OptionError, Prompt, StoreError
from bathyscope.measures.registry import MEASURES as REGISTRY
from bathyscope.measures.skip import SkipOptions
from bathyscope.wavefront.engine import Wavefront

pytestmark = pytest.mark.filterwarnings("ignore:(skip|direct). .* too short for a sampled position")

LENGTHS = (20, 13, 17, 26, 9, 15)
MEASURES = (*(name for name in REGISTRY if name not in ("translated_lens", "jacobian_lens", "patching")), "noise")
"""All that six short prompts are enough for, of which no two are paired, and no lens is fitted to others."""
DRIVER = Path(__file__).parents[1] / "support" / "survey_driver.py"


def ids(lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), lengths)


def answered(lengths: tuple[int, ...] = LENGTHS) -> list[Prompt]:
    """Prompts whose last two tokens are their answer."""
    return [Prompt(ids=own, answer_tokens=2) for own in ids(lengths)]


def surveyed(prompts: Any = None, measures: Any = "all", **options: Any) -> bathyscope.Run:
    """A survey of the tiny Llama; with no prompts given, of six of different lengths."""
    if measures == "all":
        options.setdefault("repeat", {"length": 2})
    given = answered() if prompts is None else prompts
    return bathyscope.survey(waves.loaded("llama"), given, measures, progress=False, **options)


@pytest.fixture(scope="module")
def in_memory() -> bathyscope.Run:
    return surveyed(batch_tokens=80)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> bathyscope.Run:
    return surveyed(batch_tokens=80, out=tmp_path_factory.mktemp("runs") / "run")


def assert_same_bits(one: bathyscope.Run, other: bathyscope.Run) -> None:
    assert one.measures == other.measures
    for name in one.measures:
        xr.testing.assert_identical(one[name], other[name])
        for variable, values in one[name].data_vars.items():
            if values.dtype.kind in "fi":
                assert values.values.tobytes() == other[name][variable].values.tobytes(), f"{name}.{variable}"


def assert_close(one: bathyscope.Run, other: bathyscope.Run, measures: tuple[str, ...] = MEASURES) -> None:
    for name in measures:
        for variable, values in one[name].data_vars.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(
                    values, other[name][variable], rtol=1e-5, atol=1e-5, err_msg=f"{name}.{variable}"
                )


def test_a_run_holds_every_measure(in_memory: bathyscope.Run) -> None:
    assert set(in_memory.measures) == set(MEASURES)
    assert in_memory.path is None
    effect = in_memory["skip"].effect_future
    assert effect.dims == ("prompt", "part", "reduction", "skipped", "block")
    assert effect.attrs["units"] == "1"
    assert effect.n_tokens.values.tolist() == list(LENGTHS)
    assert effect.prompt_id.values.tolist() == [str(number) for number in range(6)]
    assert set(effect.dataset.values) == {"given"}
    table = in_memory.to_dataframe("drop")
    assert len(table) == 6 * 5 + 6, "a row for each dropped block, and one for the baseline"
    assert "LlamaForCausalLM on given: 6 prompts, 100 tokens, float32" in in_memory.caption()


def test_memory_and_disk_hold_the_same_bits(in_memory: bathyscope.Run, on_disk: bathyscope.Run) -> None:
    assert_same_bits(in_memory, on_disk)
    assert on_disk.path is not None
    assert_same_bits(on_disk, bathyscope.open(on_disk.path))
    assert in_memory.manifest["identity"] == on_disk.manifest["identity"]
    assert json.loads((on_disk.path / "manifest.json").read_text()) == on_disk.manifest


def test_the_size_of_shards_changes_nothing(in_memory: bathyscope.Run) -> None:
    assert in_memory.manifest["identity"]["plan"] == [[0, 4], [4, 6]]
    for batch_tokens, shards in ((1, 6), (10_000, 1)):
        other = surveyed(batch_tokens=batch_tokens)
        assert len(other.manifest["identity"]["plan"]) == shards
        assert_close(in_memory, other)
        assert other["residual"].n_tokens.values.tolist() == list(LENGTHS)


def test_prompts_keep_their_order_though_batches_go_by_length(in_memory: bathyscope.Run) -> None:
    for prompt, own in enumerate(ids()):
        alone = surveyed([own], ["residual", "lens", "drop"])
        for measure in ("residual", "lens", "drop"):
            for variable, values in alone[measure].data_vars.items():
                np.testing.assert_allclose(
                    in_memory[measure][variable][prompt], values[0], rtol=1e-5, atol=1e-5, err_msg=str(variable)
                )


def test_a_finished_run_is_read_and_not_computed(on_disk: bathyscope.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    assert_same_bits(surveyed(batch_tokens=80, out=on_disk.path), on_disk)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"skip": {"protect_first": 0}}, "measures.skip.protect_first: run has 1, asked for 0"),
        ({"lens": {"k": 4}}, "measures.lens.k: run has 5, asked for 4"),
        ({"seed": 1}, "seed: run has 0, asked for 1"),
        ({"measures": ["lens"]}, "measures.residual: run has"),
        ({"prompts": [[5, 6, 7]]}, "prompt_hash: run has"),
        ({"keep_text": False}, "keep_text: run has True, asked for False"),
    ],
)
def test_another_configuration_is_refused(
    on_disk: bathyscope.Run, changes: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(StoreError) as caught:
        surveyed(**{"batch_tokens": 80, "out": on_disk.path, **changes})
    assert "belongs to another configuration" in str(caught.value)
    assert line in str(caught.value)


def test_another_models_weights_are_refused(on_disk: bathyscope.Run) -> None:
    other = zoo.entry("llama").build(seed=1)
    with pytest.raises(StoreError, match="weight_hash: run has"):
        bathyscope.survey(other, answered(), "all", on_disk.path, batch_tokens=80, repeat={"length": 2}, progress=False)


def test_an_interrupted_survey_keeps_what_is_finished_and_goes_on(
    in_memory: bathyscope.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during the second of two shards; the resumed run computes only that one, from its beginning."""
    run, calls = Wavefront.run_convoy, 0

    def interrupted(wave: Wavefront, convoy: Any, *more: Any) -> None:
        nonlocal calls
        [(_, probes)] = convoy  # of a model in memory each batch is computed by itself
        calls += len(probes) > 1  # a reference set is run before the first shard, for one measure alone
        if calls == 6:  # four batches of one prompt each, then one
            raise KeyboardInterrupt
        run(wave, convoy, *more)

    monkeypatch.setattr(Wavefront, "run_convoy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        surveyed(batch_tokens=80, out=tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run").glob("shard-*.nc"))
    assert kept == ["shard-00000.nc"]
    with pytest.raises(StoreError, match="is not finished: 1 of 2 shards are there"):
        bathyscope.open(tmp_path / "run")
    calls = -100
    resumed = surveyed(batch_tokens=80, out=tmp_path / "run")
    assert calls == -98
    assert_same_bits(resumed, in_memory)


def killed_and_resumed(folder: Path, kills: int, seed: int, measures: str) -> list[int]:
    """A survey killed at random moments; how many shards were there after each kill."""
    ended = warm.run([str(DRIVER), str(folder), str(kills), str(seed), measures])
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["shards"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks the processes it kills")
@pytest.mark.thorough
@pytest.mark.parametrize(("kills", "measures"), [(3, "skip,erasure"), (10, "all")])
def test_killed_at_random_moments_and_resumed(tmp_path: Path, kills: int, measures: str) -> None:
    shards = killed_and_resumed(tmp_path, kills, kills, measures)
    assert len(shards) == kills
    assert shards == sorted(shards), "a finished shard was lost"
    assert shards[-1] > 0, "no kill fell after a finished shard"
    killed, whole = (bathyscope.open(tmp_path / name) for name in ("killed", "whole"))
    assert_same_bits(killed, whole)
    for path in (tmp_path / "whole").glob("*.nc"):
        assert path.read_bytes() == (tmp_path / "killed" / path.name).read_bytes(), path.name


def test_labels_become_coordinates(tmp_path: Path) -> None:
    prompts = [
        Prompt(ids=ids()[0], id="first", labels={"level": 3, "share": 0.5, "kind": "sum"}),
        Prompt(ids=ids()[1], labels={"level": 1, "share": 1, "kind": "word"}),
        Prompt(ids=ids()[2], labels={"kind": "sum"}),
    ]
    run = surveyed(prompts, ["lens", "skip"], batch_tokens=1, out=tmp_path / "run")
    for read in (run, bathyscope.open(tmp_path / "run")):
        lens = read["lens"]
        assert lens.prompt_id.values.tolist() == ["first", "1", "2"]
        assert lens.kind.values.tolist() == ["sum", "word", "sum"]
        np.testing.assert_array_equal(lens.level, [3, 1, np.nan])
        np.testing.assert_array_equal(lens.share, [0.5, 1, np.nan])
        assert lens.groupby("kind").mean().sizes["kind"] == 2
    whole = surveyed(prompts[:2], ["lens"])
    assert whole["lens"].level.dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"entropy": 1}, "label cannot be called 'entropy', which is the name of a result of lens; rename it"),
        ({"a/b": 1}, "'a/b' cannot be the name of a label"),
        ({"level": 2**64}, "the label 'level' is 18446744073709551616, beyond the whole numbers of 64 bits"),
    ],
)
def test_labels_are_refused_before_any_block_runs(
    labels: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(bathyscope.PromptError, match=message):
        surveyed([Prompt(ids=ids()[4], labels=labels)], ["lens", "skip"])


@pytest.mark.parametrize("label", ["entropy", "loss", "measure", "positions"])
def test_labels_may_not_take_the_place_of_results(label: str) -> None:
    with pytest.raises(bathyscope.PromptError, match=f"label cannot be called {label!r}, which .* rename it"):
        surveyed([Prompt(ids=ids()[4], labels={label: 1})])


GRADIENTS = [
    *(pytest.param(mode, marks=pytest.mark.thorough) for mode in (torch.enable_grad, torch.no_grad)),
    torch.inference_mode,
]


@pytest.mark.parametrize("mode", GRADIENTS)
def test_the_callers_gradients_do_not_matter(
    in_memory: bathyscope.Run, mode: type[AbstractContextManager[None]]
) -> None:
    with mode():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        run = surveyed(batch_tokens=80)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    assert_same_bits(run, in_memory)


def hooks(model: nn.Module) -> Iterator[int]:
    for module in model.modules():
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            yield len(getattr(module, kind))


def own_attributes(model: nn.Module) -> dict[str, set[str]]:
    """What every module holds, but for the table that transformers itself keeps in longrope modules."""
    return {path: set(module.__dict__) - {"long_inv_freq"} for path, module in model.named_modules()}


@pytest.mark.parametrize("name", ["llama", "gpt2", "falcon", "gemma4", "llama_dynamic", "llama_longrope"])
def test_the_model_is_left_as_it_was(name: str) -> None:
    hf = zoo.entry(name).build()
    hf.train()
    hf.get_input_embeddings().eval()
    next(hf.parameters()).requires_grad_(False)
    state = {key: value.clone() for key, value in hf.state_dict().items()}
    config, hooked = hf.config.to_dict(), list(hooks(hf))
    training = [module.training for module in hf.modules()]
    wanted = [parameter.requires_grad for parameter in hf.parameters()]
    attributes = own_attributes(hf)
    bathyscope.survey(zoo.entry("opt").build(), [[5, 6]], ["residual"], progress=False)  # libraries seed on import
    draws = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    lengths = LENGTHS if name != "llama_dynamic" else (9, 12, 8)
    bathyscope.survey(hf, zoo.prompts(hf, lengths), progress=False)
    bathyscope.survey(hf, zoo.prompts(hf, (9,)), ["swap", "repeat"], repeat={"length": 2}, progress=False)
    assert all(torch.equal(value, state[key]) for key, value in hf.state_dict().items())
    assert hf.config.to_dict() == config
    assert list(hooks(hf)) == hooked
    assert [module.training for module in hf.modules()] == training
    assert [parameter.requires_grad for parameter in hf.parameters()] == wanted
    assert all(parameter.grad is None for parameter in hf.parameters())
    assert own_attributes(hf) == attributes
    assert torch.equal(torch.get_rng_state(), draws[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == draws[1:]
    (short,) = zoo.prompts(hf, (7,))
    assert torch.equal(naive.logits(hf.eval(), short), naive.logits(zoo.entry(name).build(), short))


def test_a_model_in_training_is_measured_without_dropout() -> None:
    hf = zoo.entry("gpt2").build()
    assert any(isinstance(module, nn.Dropout) and module.p > 0 for module in hf.modules())
    prompts = zoo.prompts(hf, (9, 14))
    calm = bathyscope.survey(hf, prompts, ["residual"], progress=False)
    hf.train()
    assert_same_bits(bathyscope.survey(hf, prompts, ["residual"], progress=False), calm)
    assert hf.training


def test_noise_is_reported_per_prompt_and_measure(in_memory: bathyscope.Run) -> None:
    noise = in_memory["noise"]
    interventions = ["skip", "direct", "depth_score", "erasure", "drop", "swap", "repeat", "swap_cosine"]
    assert noise["measure"].values.tolist() == interventions
    assert noise.floor.dims == ("measure",)
    assert (noise.floor >= 0).all()
    assert float(noise.floor.max()) < 1e-5
    assert "noise" not in surveyed(measures=["lens"]).measures


def test_the_seed_draws_the_positions() -> None:
    prompts = ids((60, 70))
    drawn = [surveyed(prompts, ["skip"], seed=seed)["skip"].positions.values.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_preset_sets_defaults_that_options_override() -> None:
    run = surveyed(preset="lad2024", measures=None, repeat={"times": 2}, seed=5)
    identity = run.manifest["identity"]
    assert set(run.measures) == {"residual", "lens", "drop", "swap", "repeat", "noise"}
    assert identity["measures"]["repeat"] == {"length": 5, "times": 2, "positions": "next"}
    assert (identity["preset"], identity["seed"]) == ("lad2024", 5)
    published = surveyed(ids((9,)), preset="csordas2025", measures=["lens"])
    assert published.manifest["identity"]["seed"] == 123
    assert published.measures == ("lens",)


def test_options_by_class_and_by_dict_are_the_same() -> None:
    by_dict = surveyed(measures=["skip"], skip={"positions": [[3], [4], [5], [6], [7], [8]], "protect_first": 2})
    own = SkipOptions(positions=((3,), (4,), (5,), (6,), (7,), (8,)), protect_first=2)
    assert_same_bits(surveyed(measures=["skip"], skip=own), by_dict)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measures": ["lense"]}, "Unknown measure 'lense'. Did you mean 'lens'?"),
        ({"measures": []}, "No measure asked for"),
        ({"measures": "lens, drpo"}, "Unknown measure 'drpo'. Did you mean 'drop'?"),
        ({"lense": {"k": 3}}, "There is no option 'lense'. Did you mean 'lens'? Options of a measure go under"),
        ({"batch_token": 3}, "survey() has no option 'batch_token'."),
        ({"dtype": "bfloat16"}, "survey() has no option 'dtype', which is one of load(): give loading={'dtype': …}"),
        ({"lens": {"kk": 3}}, "lens has no option 'kk'. Did you mean 'k'?"),
        ({"lens": 3}, "lens: options are a dict or LensOptions; int given."),
        ({"measures": ["lens"], "skip": {}}, "Options for skip were given, but skip is not among the measures: lens."),
        ({"preset": "csordas"}, "Unknown preset 'csordas'. Did you mean 'csordas2025'?"),
        ({"batch_tokens": 0}, "batch_tokens=0 is out of range; allowed: 1 or more."),
        ({"seed": "x"}, "seed takes a whole number; 'x' given."),
        ({"seed": -1}, "seed=-1 is out of range; allowed: 0 to 4294967295."),
        ({"seed": 1.5}, "seed takes a whole number; 1.5 given."),
        ({"keep_text": "no"}, "keep_text takes true or false; 'no' given."),
        ({"skip": {"positions": [[1], [2]]}}, "skip: positions has 2 lists for 6 prompts"),
        ({"measures": ["drop"], "drop": {"blocks": [5]}}, "drop: block 5 is out of range; allowed: 0 to 4."),
        ({"measures": ["repeat"], "repeat": {"length": 9}}, "repeat: length=9 does not fit a model of 5 blocks"),
    ],
)
def test_options_are_refused_before_any_block_runs(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(OptionError) as caught:
        surveyed(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "lengths"),
    [("llama_dynamic", (13, 12, 13)), ("llama_longrope", (13, 12, 13)), ("deepseek_v32", (21, 20, 21))],
)
def test_prompts_whose_neighbours_lengths_matter_are_kept_apart(name: str, lengths: tuple[int, ...]) -> None:
    """Nearly equal lengths would share a batch in any other model."""
    model = waves.loaded(name)
    prompts = zoo.prompts(model.hf, lengths)
    options = {"beyond_context": True, "progress": False}
    with pytest.warns(UserWarning, match="longer than the 12") if name == "llama_dynamic" else nullcontext():
        together = bathyscope.survey(model, prompts, ["residual", "drop"], **options)
        for prompt, own in enumerate(prompts):
            alone = bathyscope.survey(model, [own], ["residual", "drop"], **options)
            for measure, variable in (("residual", "norm_resid"), ("drop", "kl")):
                np.testing.assert_allclose(
                    together[measure][variable][prompt], alone[measure][variable][0], rtol=1e-5, atol=1e-6
                )


def test_prompts_that_stand_twice_are_told(recwarn: pytest.WarningsRecorder) -> None:
    """Copies make intervals narrow, and say nothing new."""
    model, ids = zoo.build("llama"), [[5, 6, 7], [5, 6, 7], [8, 9, 10]]
    bathyscope.survey(model, [ids[0], ids[2]], ["lens"], progress=False)
    assert [one for one in recwarn if "have the tokens of others" in str(one.message)] == []
    with pytest.warns(UserWarning, match=r"^1 of 3 prompts have the tokens of others: each counts in the means, and"):
        bathyscope.survey(model, ids, ["lens"], progress=False)
