from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bathyscope.errors import ModelError
from bathyscope.prompts.tokenizer import PROBE, load_tokenizer, tokenizer_hash


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """A checkpoint's folder with a configuration and, where given, a tokenizer."""

    def build(model_type: str, tokenizer: Tokenizer | None, **config: object) -> Path:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
        if tokenizer is not None:
            tokenizer.save(str(tmp_path / "tokenizer.json"))
            config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", **config}
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return build


def test_own_tokenizer_wins_where_transformers_ignores_it(
    folder: Callable[..., Path], backend: Callable[..., Tokenizer]
) -> None:
    own = backend()
    own.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("e", "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    path = folder("qwen2", own, eos_token="</s>", padding_side="left")
    picked = AutoTokenizer.from_pretrained(path)
    assert picked(PROBE)["input_ids"] != own.encode(PROBE).ids, "transformers reads the file: nothing to guard"
    with pytest.warns(UserWarning, match=r"transformers picks Qwen2Tokenizer.*own tokenizer\.json.*own is used"):
        loaded = load_tokenizer(path)
    assert loaded is not None
    for text in (PROBE, "The eggs, the eggs!", " e e"):
        assert loaded(text)["input_ids"] == own.encode(text).ids
    assert (loaded.bos_token, loaded.eos_token, loaded.padding_side) == ("<s>", "</s>", "left")


@pytest.mark.parametrize("bos", [True, False])
def test_no_warning_where_they_agree(folder: Callable[..., Path], backend: Callable[..., Tokenizer], bos: bool) -> None:
    own = backend(bos=bos)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        loaded = load_tokenizer(str(folder("llama", own)))
    assert loaded is not None
    assert loaded(PROBE)["input_ids"] == own.encode(PROBE).ids
    assert (loaded(PROBE)["input_ids"][0] == loaded.bos_token_id) is bos


def test_bos_never_comes_from_the_models_configuration(
    folder: Callable[..., Path], backend: Callable[..., Tokenizer]
) -> None:
    path = folder("llama", backend(special=()), bos_token=None)
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "bos_token_id": 7}))
    loaded = load_tokenizer(path)
    assert loaded is not None
    assert loaded.bos_token_id is None
    assert 7 not in loaded("The")["input_ids"]


@pytest.mark.parametrize("model_type", ["gpt2", "qwen2", "llama"])
def test_no_vocabulary_at_all(folder: Callable[..., Path], model_type: str) -> None:
    path = folder(model_type, None)
    assert load_tokenizer(path) is None
    (path / "tokenizer_config.json").write_text("{}")
    assert load_tokenizer(path) is None


def test_empty_vocabulary(folder: Callable[..., Path]) -> None:
    path = folder("qwen2", None)
    (path / "vocab.json").write_text("{}")
    (path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(ModelError, match="turns text into no tokens: its vocabulary is missing"):
        load_tokenizer(path)


def test_unusable(folder: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere does not exist; give a folder with the model's files, or a name"):
        load_tokenizer(tmp_path / "nowhere")
    (folder("llama", None) / "tokenizer.json").write_text("{}")
    with pytest.raises(
        ModelError, match=r"loaded: tokenizer\.json or .* \(KeyError: .*\); compare both with the origin"
    ):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": ')
    with pytest.raises(ModelError, match=r"The tokenizer of .* cannot be loaded: .*prompts of token ids need no"):
        load_tokenizer(tmp_path)


def test_damaged_settings_are_named(folder: Callable[..., Path], backend: Callable[..., Tokenizer]) -> None:
    file = folder("llama", backend()) / "tokenizer_config.json"
    file.write_text(file.read_text()[:-5])
    with pytest.raises(ModelError, match=r"cannot be loaded: tokenizer_config\.json is damaged \(.*\)\. Restore it"):
        load_tokenizer(file.parent)


def test_hub_name_from_the_cache(tmp_path: Path, backend: Callable[..., Tokenizer]) -> None:
    own = backend()
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    repository = tmp_path / "hub" / "models--lab--tiny"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    (snapshot / "config.json").write_text('{"model_type": "qwen2"}')
    own.save(str(snapshot / "tokenizer.json"))
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from bathyscope.prompts.tokenizer import load_tokenizer\n"
        "print(load_tokenizer('lab/tiny')('The eggs')['input_ids'])"
    )
    offline = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout) == own.encode("The eggs").ids


@pytest.mark.shared
def test_checkpoint_with_a_vocabulary_of_its_own(shared: Callable[[str], Path]) -> None:
    path = shared("checkpoints/tiny-qwen2")
    own = Tokenizer.from_file(str(path / "tokenizer.json"))
    with pytest.warns(UserWarning, match="Qwen2Tokenizer"):
        loaded = load_tokenizer(path)
    assert loaded is not None
    text = PROBE + shared("data/text/tinystories_slice.txt").read_text()[:5000]
    assert loaded(text, verbose=False)["input_ids"] == own.encode(text).ids


def test_hash_knows_what_decides_token_ids(backend: Callable[..., Tokenizer]) -> None:
    def wrap(tokenizer: Tokenizer, **options: str) -> PreTrainedTokenizerFast:
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)

    other_split = backend()
    other_split.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    different = [
        wrap(backend()),
        wrap(backend(bos=True)),
        wrap(backend(special=("<s>",))),
        wrap(other_split),
        wrap(backend(), bos_token="<s>"),
    ]
    hashes = [tokenizer_hash(tokenizer) for tokenizer in different]
    assert len(set(hashes)) == len(different)
    assert all(len(digest) == 64 for digest in hashes)
    assert tokenizer_hash(wrap(backend())) == hashes[0]


def test_hash_outlives_use(backend: Callable[..., Tokenizer]) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend(), pad_token="</s>")
    state, digest = tokenizer.backend_tokenizer.to_str(), tokenizer_hash(tokenizer)
    tokenizer(["The eggs", "The ducks lay eggs"], truncation=True, max_length=3, padding=True)
    assert tokenizer.backend_tokenizer.to_str() != state
    assert tokenizer_hash(tokenizer) == digest


def test_hash_of_a_tokenizer_without_backend() -> None:
    class Letters:
        is_fast = False
        special_tokens_map: dict[str, str] = {}  # noqa: RUF012

        def __init__(self, letters: str) -> None:
            self.letters = letters

        def get_vocab(self) -> dict[str, int]:
            return {letter: number for number, letter in enumerate(self.letters)}

    assert tokenizer_hash(Letters("abc")) == tokenizer_hash(Letters("abc")) != tokenizer_hash(Letters("acb"))
