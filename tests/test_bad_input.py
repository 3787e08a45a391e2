"""What a user can get wrong: a clear error, before any block runs, and finished work kept."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import waves, zoo
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast

import bathyscope
from bathyscope import ModelError, Prompt, PromptError, PromptSet, StoreError, load, survey
from bathyscope.cli import main
from bathyscope.cli.console import widen_terminal
from bathyscope.core.text import require_text
from bathyscope.options import Range
from bathyscope.wavefront.engine import Wavefront

pytestmark = pytest.mark.filterwarnings("ignore:skip. .* too short for a sampled position")

WORDS = [f"w{number}" for number in range(100)]
TEXTS = ["w1 w2 w3 w4 w5 w6 w7", "w9 w8 w7 w6"]
IDS = [[11, 12, 13, 14, 15, 16, 17], [19, 18, 17, 16]]


def tokenizer(**options: Any) -> PreTrainedTokenizerFast:
    """One token a word; ``w1`` is 11, since the first ten ids stand for special tokens."""
    vocabulary = {f"<{number}>": number for number in range(10)} | {w: 10 + n for n, w in enumerate(WORDS)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<3>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<0>", eos_token="<2>", **options)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny model with its tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint")
    zoo.entry("llama").build().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def refused(error: type[Exception], prompts: Any, model: str = "llama", **options: Any) -> str:
    """The message a survey is refused with."""
    with pytest.raises(error) as caught:
        survey(waves.loaded(model), prompts, progress=False, **options)
    return str(caught.value)


# --- prompts -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([], "The list of prompts is empty; give at least one prompt."),
        ([[]], "Prompt '0': it has no tokens; a measurement needs at least two. Give a longer prompt."),
        ([[5, 6], [7]], "Prompt '1': it has one token; a measurement needs at least two."),
        ([5, 6, 7], "A flat list of numbers is one prompt, not a list of prompts; write [[…]]."),
        ([[5, 6, 120]], "Prompt '0': token id 120 is outside of the model's vocabulary (0 to 119)"),
        ([[5, -1]], "Prompt '0': token id -1 is outside of the model's vocabulary"),
        (
            [[5, 6], 3.5],
            "Prompt 1 of the list is 3.5; allowed: a text, a Prompt, a dict of its fields, a list of token ids",
        ),
        ([Prompt(ids=[5, 6], id="a"), Prompt(ids=[5, 7], id="a")], "The prompt id 'a' is used 2 times"),
        ([[5] * 257], "Prompt '0': it has 257 tokens, more than the 256 the model can take; shorten it"),
    ],
)
def test_prompts_that_cannot_be_measured(prompts: Any, message: str) -> None:
    assert message in refused(PromptError, prompts)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("kind", ["file", "wrapped file", "text in memory"])
def test_an_open_file_is_no_list_of_prompts(kind: str, tmp_path: Path, checkpoint: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"text": "w1 w2 w3"}\n')
    openers: dict[str, Any] = {
        "file": (tmp_path / "p.jsonl").open,
        "wrapped file": partial(tempfile.NamedTemporaryFile, "w+"),
        "text in memory": io.StringIO,
    }
    for read in (survey, bathyscope.solved, lambda *given: bathyscope.cka(checkpoint, *given)):
        with openers[kind]() as file, pytest.raises(PromptError, match="an open file, whose") as e:
            read(str(checkpoint), file)
        assert f"such as {getattr(file, 'name', None)!r}" in str(e.value) or not hasattr(file, "name")


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("name", "message", "unsaid"),
    [
        ("run", "Prompts 'run': this folder holds a run, not prompts.", "run/"),
        ("plan", "Prompts 'plan': this folder holds a plan, not prompts.", "plan/"),
        ("model", "Prompts 'model': this folder holds a model, not prompts.", "model/"),
        ("texts", "For the texts of this folder write texts/.", "Did you mean"),
        ("ROWS.JSONL", "Did you mean 'rows.jsonl'?", "'rows.csv'"),
        ("rows.json", "Did you mean 'rows.jsonl'?", "'rows.csv'"),
        ("rwos.jsonl", "rwos.jsonl does not exist. Did you mean 'rows.jsonl'? Check the path.", "'rows.csv'"),
        ("nothing.jsonl", "nothing.jsonl does not exist. Check the path.", "Did you mean"),
        (f"{'x' * 400}.jsonl", f"{'x' * 199}… does not exist", "x" * 250),
        ("rows.csv", "as alpaca's. Its columns: text, the level.", "Did you mean"),
        ("rows.tsv", "as alpaca's. Its columns: question.", "Did you mean"),
        ("written:4", "measured by survey --write (write=) after prompts of your own", "Did you mean"),
        ("/nowhere/of/problem", "is neither a data set nor a prompt file. Allowed", "Did you mean"),
        ("link.jsonl", "link.jsonl is a link that leads to no file.", "Did you mean"),
        ("https://a.b/c.jsonl", "addresses are not read. Download the file and give its path", "does not exist"),
        ("~/c.jsonl", "HOME/c.jsonl does not exist. Check the path.", "folder ~"),
        ("", "the text is empty; give a data set such as gsm8k:10, or a file of prompts.", "['']"),
        (
            "story.txt:5?limit=10&chars=5",
            "story.txt gives 2 prompts of this size, 5 asked for of its first 10",
            "ones.",
        ),
        ("story.txt:500?chars=50", "story.txt gives 20 prompts of this size, 500 asked for; ask for", "limit="),
    ],
)
def test_sources_that_are_none(
    name: str, message: str, unsaid: str, tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"run": "manifest.json", "plan": "prune.json", "model": "config.json", "texts": "a.txt"}
    for folder, file in files.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("{}")
    (tmp_path / "rows.jsonl").write_text('{"text": "w1 w2 w3"}\n')
    (tmp_path / "rows.csv").write_text("text,the level\nw1 w2 w3,1\n")
    (tmp_path / "rows.tsv").write_text("question\nw1 w2 w3\n")
    (tmp_path / "story.txt").write_text("w1 w2 w3 w4 " * 84)
    (tmp_path / "link.jsonl").symlink_to("elsewhere.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "texts"))
    with pytest.raises(PromptError) as caught:
        survey(str(checkpoint), name, progress=False)
    assert message.replace("HOME", str(tmp_path / "texts")) in str(caught.value)
    assert unsaid not in str(caught.value)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(("measure", "option"), [("erasure", "reference"), ("jacobian_lens", "prompts")])
def test_a_measures_own_prompts_are_named_by_their_option(measure: str, option: str, checkpoint: Path) -> None:
    for source, message in (("nope.jsonl", "nope.jsonl does not exist"), ([], "The list of prompts is empty")):
        with pytest.raises(PromptError, match=f"^{measure}: {option}: {message}"):
            survey(
                str(checkpoint),
                [Prompt("w1 w2 w3", answer=" w4")],
                [measure],
                progress=False,
                **{measure: {option: source}},
            )


def test_a_number_is_no_corpus(checkpoint: Path) -> None:
    with pytest.raises(bathyscope.OptionError, match="corpus=5 is no path; give it as text"):
        bathyscope.probe("ing", str(checkpoint), 5)  # type: ignore[call-overload]


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_text(text: str, checkpoint: Path) -> None:
    two = ["w1 w2", text]
    for ask in (
        lambda: survey("nobody/no-such-model", two, progress=False),
        lambda: bathyscope.prune("nobody/no-such-model", two, ["w3 w4"], drop=1, progress=False),
        lambda: bathyscope.diff("nobody/no-such-model", "nobody/another", two),
        lambda: bathyscope.fit_lens("nobody/no-such-model", two, progress=False),
    ):
        # the models do not exist: loading them would be the error
        with pytest.raises(PromptError, match="Prompt '1': the text is empty; give at least a few words"):
            ask()
    with pytest.raises(PromptError, match="Prompt '1': the text is empty; give at least a few words"):
        survey(str(checkpoint), ["w1 w2", text], progress=False)
    with pytest.raises(PromptError, match="Prompt '0': it has one token"):
        survey(str(checkpoint), ["w1"], progress=False)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("model", ["gpt2", "gptj", "ctrl", "mpt", "opt"])
@pytest.mark.parametrize("beyond_context", [None, True])
def test_positions_of_a_table_run_out(model: str, beyond_context: bool | None) -> None:
    limit = waves.loaded(model).max_tokens
    assert limit is not None
    given: Any = PromptSet((Prompt(ids=[5] * (limit + 1)),), "long", is_data_set=True)
    message = refused(PromptError, given, model, beyond_context=beyond_context)
    assert f"it has {limit + 1} tokens, more than the {limit} the model can take" in message


def test_rotary_positions_go_on_where_they_are_asked_to() -> None:
    long = [Prompt(ids=zoo.prompts(zoo.build("llama"), (260,))[0])]
    for given, beyond_context in ((long, True), (PromptSet(tuple(long), "long", is_data_set=True), None)):
        with pytest.warns(UserWarning, match="1 of 1 prompts are longer than the 256 tokens of context"):
            run = survey(waves.loaded("llama"), given, ["residual"], beyond_context=beyond_context, progress=False)
        assert run["residual"].n_tokens.values.tolist() == [260]
    assert "more than the 256" in refused(PromptError, long)
    data_set = PromptSet(tuple(long), "long", is_data_set=True)
    assert "more than the 256" in refused(PromptError, data_set, beyond_context=False)


def test_no_position_to_sample_is_said_and_left_out() -> None:
    prompts = zoo.prompts(zoo.build("llama"), (12, 13, 5))
    with pytest.warns(
        UserWarning, match=r"skip: 2 of 3 prompts are too short for a sampled position \(shorter than 13"
    ):
        run = survey(waves.loaded("llama"), prompts, progress=False)
    future = run["skip"].effect_future
    assert future.isnull().all(["part", "reduction", "skipped", "block"]).values.tolist() == [True, False, True]
    assert np.isfinite(run["effective_depth"].depth.sel(estimator="centre_of_mass"))


# --- models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers(value: float, tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        hf.model.layers[2].self_attn.k_proj.weight[3, 4] = value
    message = r"holds NaN or Inf in model\.layers\.2\.self_attn\.k_proj\.weight \(1 of 2048 values\); "
    with pytest.raises(ModelError, match=f"{message}this model in memory is damaged"):
        load(hf)
    hf.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=f"{message}its checkpoint is damaged"):
        survey(str(tmp_path), IDS, progress=False)


def test_a_model_that_overflows_in_its_dtype_is_told_so() -> None:
    hf = zoo.entry("llama").build().half()
    with torch.no_grad():
        for part in (hf.model.layers[2].mlp.up_proj, hf.model.layers[2].mlp.down_proj):
            part.weight.fill_(6e4)
    with pytest.raises(
        ModelError, match=r"block 2 gives NaN or Inf for ordinary tokens in float16\. .* bfloat16 or float32"
    ):
        load(hf)


def test_a_tokenizer_that_has_no_token_for_a_word() -> None:
    words = Tokenizer(models.WordLevel({"the": 0, "old": 1, "house": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    model = load(zoo.build("llama"), tokenizer=PreTrainedTokenizerFast(tokenizer_object=words))
    with pytest.raises(PromptError, match=r"^Prompt '1': its tokenizer refuses the text \(WordLevel error: Missing"):
        survey(model, ["the old house", "the zebra house"], progress=False)


@pytest.mark.usefixtures("nothing_runs")
def test_text_without_a_tokenizer(tmp_path: Path) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path)
    for model in (str(tmp_path), zoo.build("llama")):
        with pytest.raises(PromptError, match="Prompt '0': it is text, and the model has no tokenizer; give token ids"):
            survey(model, TEXTS, progress=False)


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path)
    run = survey(str(tmp_path), IDS, ["residual"], progress=False)
    assert run.manifest["identity"]["tokenizer_hash"] is None


@pytest.mark.parametrize("file", ["config.json", "adapter_config.json"])
def test_a_folder_of_checkpoints_names_them(file: str, tmp_path: Path) -> None:
    for step in (20, 100, 3):
        (tmp_path / "training" / f"checkpoint-{step}").mkdir(parents=True)
        (tmp_path / "training" / f"checkpoint-{step}" / file).write_text("{}")
    (tmp_path / "training" / "logs").mkdir()
    words = (
        r"without a config.json; it holds 3 models \(checkpoint-3, checkpoint-20, checkpoint-100\). Give one of them"
    )
    with pytest.raises(ModelError, match=words):
        load(tmp_path / "training")


def test_wrong_folders(tmp_path: Path, checkpoint: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelError, match=r"is a folder without a config.json; give a folder saved by save_pretrained"):
        load(empty)
    with pytest.raises(ModelError, match=r"There is no folder .*nowhere. Give a checkpoint folder or a hub name"):
        load(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"is a file; give the checkpoint's folder, a hub name or a .gguf file"):
        load(checkpoint / "config.json")
    (empty / "config.json").write_text((checkpoint / "config.json").read_text())
    with pytest.raises(ModelError, match=r"cannot be loaded as a causal language model: .*safetensors"):
        load(empty)
    (empty / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be loaded as a causal language model"):
        load(empty)
    (empty / "config.json").write_text('{"model_type": "no-such-model"}')
    with pytest.raises(ModelError, match="cannot be loaded as a causal language model"):
        load(empty)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.json": "{"}, "its config.json is not a valid JSON file (Expecting property name enclosed in double"),
        ({"config.json": '{"num_hidden_layers": 0}'}, "num_hidden_layers: 0; a model has 1 to 1,000 blocks"),
        ({"manifest.json": "{}"}, "a folder without a config.json; it holds a run. Give a model, such as a checkpoint"),
        ({"course.json": "{}"}, "a folder without a config.json; it holds a course. Give a model"),
    ],
)
def test_no_other_folder_is_meant_where_the_given_one_is_there(
    files: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("base", "base2"):
        (tmp_path / folder).mkdir()
        for name, content in files.items():
            (tmp_path / folder / name).write_text(content)
    with pytest.raises(ModelError) as caught:
        load("base")
    assert message in str(caught.value)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\xef\xbb\xbf{}",
            "its config.json begins with a byte-order mark, which JSON does not have; save it as UTF-8",
        ),
        (b'{"a": "\xff"}', "its config.json is not UTF-8 text (byte 7); copy it again"),
        (b'{"vocab_size": 8}', "its config.json names no family; give it the original's model_type, such as 'llama'"),
        (b'{"model_type": 5}', "its config.json says model_type: 5; give a family's name, as 'llama'"),
    ],
)
def test_a_configuration_that_cannot_be_read_says_why(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    for call in (load, lambda folder: bathyscope.estimate(folder, [[1, 2, 3]])):
        with pytest.raises(ModelError) as caught:
            call(str(tmp_path))
        assert message in str(caught.value)
        assert "It looks like" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "its generation_config.json is not a valid JSON file (Expecting property name"),
        (b"\xff", "its generation_config.json is not UTF-8 text (byte 0); copy it again"),
        (b"[5]", "its generation_config.json holds a list, and settings have names and values"),
        (
            b'{"eos_token_id": "x"}',
            "its generation_config.json says eos_token_id: 'x'; give a token's number, or a list",
        ),
        (b'{"eos_token_id": [2, true]}', "its generation_config.json says eos_token_id: [2, True]; give a token's"),
    ],
)
def test_settings_of_writing_that_cannot_be_read_are_not_left_aside(
    content: bytes, message: str, checkpoint: Path, tmp_path: Path
) -> None:
    """The library ends answers at other tokens then, without a word."""
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    (copy / "generation_config.json").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        load(str(copy))
    assert message in str(caught.value)


def test_a_name_that_the_hub_does_not_answer_for() -> None:
    with pytest.raises(ModelError, match="nobody/no-such-model cannot be loaded as a causal language model"):
        load("nobody/no-such-model")


def test_pickled_weights_are_not_read(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    torch.save(zoo.build("llama").state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"holds pytorch_model\.bin alone, a pickle, .*save_pretrained\(NEW\)"):
        load(tmp_path)


def test_models_that_are_no_causal_language_models(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="LlamaModel is a model without a head; give the causal one"):
        load(AutoModel.from_pretrained(checkpoint))
    small = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    with pytest.raises(ModelError, match="bert is an unknown family and has no output embeddings"):
        load(BertModel(small))
    with pytest.raises(ModelError, match=r"Linear has no config\. Wrap it in a PreTrainedModel that takes input_ids"):
        load(torch.nn.Linear(2, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float3"}, "Unknown dtype 'float3'; allowed: float32, float64, bfloat16, float16."),
        ({"device": "tpu9000"}, "Unknown device 'tpu9000'; try cpu, cuda or cuda:0."),
        ({"device": "cpu:3"}, "Device 'cpu:3': torch numbers no processors; write cpu."),
    ],
)
def test_dtypes_and_devices(checkpoint: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(checkpoint, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="Device 'cuda' asked for, but torch sees no CUDA device; use --device cpu"):
        load(checkpoint, device="cuda")


def test_attention_whose_masks_fit_one_batch_only() -> None:
    hf = zoo.entry("llama").build()
    hf.config._attn_implementation = "flex_attention"
    with pytest.raises(
        ModelError, match=r"'flex_attention' compiles its mask for one shape .* attn_implementation='sdpa'"
    ):
        load(hf)


@pytest.mark.parametrize("name", ["bloom", "falcon"])
def test_a_model_that_answers_in_tuples(name: str) -> None:
    hf = zoo.entry(name).build()
    hf.config.return_dict = False
    assert load(hf).checks.no_op == 0


def test_a_model_in_memory_keeps_its_dtype() -> None:
    with pytest.raises(ModelError, match=r"dtype= is for models loaded by name; convert a model in memory yourself"):
        load(zoo.build("llama"), dtype="bfloat16")
    with pytest.raises(ModelError, match="revision= is for models on the hub, and a model in memory was given; leave"):
        load(zoo.build("llama"), revision="main")
    assert load(zoo.build("llama"), dtype="float32").dtype == torch.float32


# --- tokenizers and caches -----------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tokenizer_that_pads_on_the_left_changes_nothing(side: str) -> None:
    hf = zoo.build("llama")
    model = load(hf, tokenizer=tokenizer(padding_side=side, truncation_side=side, model_max_length=3))
    by_text, by_ids = (survey(model, given, ["lens", "skip"], progress=False) for given in (TEXTS, IDS))
    for measure in ("lens", "skip"):
        xr.testing.assert_equal(by_text[measure], by_ids[measure])
    assert by_text["lens"].n_tokens.values.tolist() == [7, 4]


@pytest.mark.parametrize("name", ["llama", "gpt2", "bloom", "falcon", "gpt_neox", "mpt", "lfm2", "gemma4"])
def test_whether_a_model_likes_to_cache_changes_nothing(name: str) -> None:
    """Cache arguments go by four names; none may reach a replayed block from the model's own settings."""
    hf = zoo.entry(name).build()
    prompts = zoo.prompts(hf, (14, 9))
    runs = []
    for wanted in (True, False):
        hf.config.use_cache = wanted
        hf.config.get_text_config().use_cache = wanted
        runs.append(survey(hf, prompts, ["residual", "skip", "swap"], progress=False))
    for measure in runs[0].measures:
        xr.testing.assert_identical(runs[0][measure], runs[1][measure])


# --- command lines -------------------------------------------------------------------------------------

TWO = ("nobody/shallow", "nobody/deep", "--prompts", "{file}")
REPAIR = ("repair", "nobody/model", "--schedule", "drop:1", "--calibration", "{file}", "--test", "{file}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("maps", *TWO, "--ridge=-1"), "ridge=-1.0 is out of range; allowed: 0 or more."),
        (("maps", *TWO, "--choose-share", "0"), "choose_share=0.0 is out of range; allowed: above 0 and below 1."),
        (("maps", *TWO, "--test-share", "nan"), "test_share=nan is out of range; allowed: above 0 and below 1."),
        (("maps", *TWO, "--memory", "0"), "memory=0.0 is out of range; allowed: above 0."),
        (("maps", *TWO, "--sources-per-pass", "0"), "sources_per_pass=0 is out of range; allowed: 1 or more."),
        (("cka", *TWO, "--batch", "3"), "batch=3 is out of range; allowed: 4 to 4096."),
        (("solved-by", *TWO, "--out", "{new}.jsonl", "--label", ""), "label='' is empty; give the label a name"),
        (("solved-by", *TWO, "--out", "{new}.jsonl", "--label", "prompt"), "label='prompt' is not allowed, since"),
        (("fit-lens", *TWO[1:], "--out", "{new}.pt"), "must end in .safetensors, the kind of file that a lens is."),
        (("repeat-scan", *TWO[1:], "--longest", "0"), "longest=0 is out of range; allowed: 1 or more."),
        (("repeat-scan", *TWO[1:], "--orders", "zz"), "Unknown schedule 'zz'."),
        (("survey", *TWO[1:], "--out", "{new}", "--schedule", "dorp:1"), "Unknown schedule 'dorp:1'. Did you mean 'dr"),
        (("survey", *TWO[1:], "--out", "{new}", "--schedule", "order:"), "'order:': write the blocks joined by dashes"),
        (
            ("survey", *TWO[1:], "--out", "{new}", "--until", "inf"),
            "until=inf is out of range; allowed: a finite",
        ),
        ((*REPAIR, "--how", "heal", "--tokens", "9", "--rate", "nan"), "rate=nan is out of range; allowed: above 0."),
        (
            (*REPAIR, "--rate", "0.1"),
            "rate=0.1 is of healing; give how='heal' (--how heal), or leave rate out.",
        ),
        (("repair", "{run}"), "holds a run; bathyscope repair takes a model, or the folder of a plan."),
        (
            ("export", "{run}", "--out", "{new}"),
            "holds a run; bathyscope export takes a model, or the folder of",
        ),
        (
            ("prune", *TWO[1:2], "--calibration", "{file}", "--test", "{file}", "--drop", "1", "--limit", "3"),
            "limit=3 is of tasks; give evaluate=['arc_easy'] (--evaluate arc_easy), or leave limit out.",
        ),
    ],
)
def test_what_a_value_alone_decides_is_refused_before_a_model_is_loaded(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The models do not exist: loading them would be the error."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text("{}")
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps({"ids": ids}) for ids in IDS))
    places = {"file": tmp_path / "p.jsonl", "new": tmp_path / "new", "run": tmp_path / "run"}
    assert main([word.format_map(places) for word in words]) == bathyscope.OptionError.exit_code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["0", "1", "2"])
def test_help_ends_in_a_terminal_that_is_too_narrow_for_words(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    widen_terminal()
    assert os.environ["COLUMNS"] == "20"
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["badge", "--help"]) == 0
    assert "Usage: bathyscope" in capsys.readouterr().out


# --- folders of runs -----------------------------------------------------------------------------------


def kept_run(folder: Path) -> bathyscope.Run:
    return survey(
        waves.loaded("llama"),
        zoo.prompts(zoo.build("llama"), (9, 12, 8)),
        ["lens"],
        folder,
        batch_tokens=1,
        progress=False,
    )


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("place", ["file", "under a file"])
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    out = tmp_path / "file" if place == "file" else tmp_path / "file" / "run"
    message = refused(StoreError, IDS, out=out)
    assert str(tmp_path / "file") in message


@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"name": "someone else's"}))
    assert "manifest" in refused(StoreError, IDS, out=tmp_path)


def test_a_disk_that_fills_up_keeps_finished_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.replace, iter(range(1000))

    def limited(source: Any, target: Any) -> None:
        if str(target).endswith("shard-00001.nc"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        next(calls)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", limited)
        with pytest.raises(
            StoreError, match=r"Writing shard 1 .* failed: No space left on device. 1 of 3 shards are kept"
        ):
            kept_run(tmp_path / "run")
    assert next(calls) > 0
    assert bathyscope.open(tmp_path / "run", partial=True)["lens"].sizes["prompt"] == 1
    resumed, whole = kept_run(tmp_path / "run"), kept_run(tmp_path / "whole")
    xr.testing.assert_identical(resumed["lens"], whole["lens"])


def damaged(data: bytes) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    yield b""
    middle = len(data) // 2
    yield data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def test_shards_that_were_cut_short_or_altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_run(tmp_path / "run")
    shard = tmp_path / "run" / "shard-00001.nc"
    original = shard.read_bytes()
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    for content in damaged(original):
        shard.write_bytes(content)
        for read in (lambda: bathyscope.open(tmp_path / "run"), lambda: kept_run(tmp_path / "run")):
            with pytest.raises(StoreError, match=r"shard-00001\.nc"):
                read()
    shard.write_bytes(original)
    assert bathyscope.open(tmp_path / "run")["lens"].sizes["prompt"] == 3


def test_a_shard_that_is_gone_is_computed_anew(tmp_path: Path) -> None:
    whole = kept_run(tmp_path / "run")
    (tmp_path / "run" / "shard-00001.nc").unlink()
    xr.testing.assert_identical(kept_run(tmp_path / "run")["lens"], whole["lens"])


@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_without_a_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError) as caught:
            bathyscope.open(folder)
        assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bathyscope.course("m", IDS, "c", loading=5), bathyscope.OptionError, "loading=5 is no dict of arg"),
        (lambda: survey("m", IDS, loading={5: 6}), bathyscope.OptionError, r"loading={5: 6} is no dict of arguments"),
        (lambda: PromptSet((), "x"), PromptError, "x holds no prompts; give at least one."),
        (lambda: Range(5, 1), bathyscope.OptionError, r"Range\(5, 1\) is no range. Give two numbers, the lower one"),
        (lambda: Range("a"), bathyscope.OptionError, r"Range\('a', None\) is no range."),
        (lambda: Range(0, 1, open=True).check(1.0, "x"), bathyscope.OptionError, "allowed: above 0 and below 1."),
        (
            lambda: require_text("a\udcff", "title=", StoreError),
            StoreError,
            "title= holds the lone surrogate",
        ),
    ],
)
def test_values_that_are_none_of_their_kind(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_every_error_says_how_the_command_line_ends() -> None:
    def codes(errors: Sequence[type[bathyscope.BathyscopeError]]) -> list[int]:
        return [error.exit_code for error in errors]

    assert codes([bathyscope.BathyscopeError, bathyscope.OptionError, PromptError, ModelError, StoreError]) == [
        1,
        2,
        3,
        4,
        5,
    ]
