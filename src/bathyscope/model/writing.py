"""Survey what a model writes: its own continuation of each prompt takes the answer's place, and is measured.

The continuation is made first, one prompt at a time, and then surveyed like any other text, so that every number is the
one that the same tokens give when they are handed in. Where a prompt has an answer, the model is asked for it: the
label ``right`` says whether it wrote that answer, token for token, as ``bathyscope.solved`` has it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from transformers import GenerationConfig, PreTrainedModel

from bathyscope.core.progress import ProgressBar
from bathyscope.errors import ModelError, PromptError, warn
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.recording import reset_rotary
from bathyscope.model.continuing import generating_by, writes_on_a_cache
from bathyscope.model.model import Model
from bathyscope.prompts.continued import MOST_CUT_OFF, name_how
from bathyscope.prompts.prompt import Label, TokenizedPrompt
from bathyscope.prompts.prompts import Prompts

OF_WRITTEN: Final[Mapping[str, Mapping[str, Any]]] = {"lens": {"positions": "answer"}, "tokens": {"length": 4096}}
"""Options of measures where none are given: what was written is measured, and is behind the whole question."""
LABELS: Final = ("written", "ended", "right")
"""Tokens that were written; 1 where the model ended its text itself; 1 where it wrote the prompt's answer."""


@dataclass(frozen=True)
class Writing:
    """How a model continues prompts.

    Args:
        tokens: at most this many; less where the model ends its text.
        temperature: 0 = the most probable token each time; else tokens are drawn from the distribution at it.
        seed: of drawing.
    """

    tokens: int
    temperature: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        return name_how(self.tokens, self.temperature, self.seed)

    def continued(self, model: Model, prompts: Prompts, *, progress: bool = True) -> Prompts:
        """Return the prompts with what the model writes in the place of their answers.

        Raises:
            ModelError: streamed blocks, a model that cannot generate, or one that gives NaN.
            PromptError: a prompt that would grow beyond the context, or has a label of a name in ``LABELS``.
        """
        self._require_possible(model, prompts)
        written: list[TokenizedPrompt] = []
        cut_off: list[int] = []
        texts = self.texts(model, prompts, title=f"{model.name} is writing", progress=progress)
        for prompt, tokens in zip(prompts, texts):
            labels: dict[str, Label] = {
                **prompt.labels,
                "written": len(tokens),
                "ended": int(tokens[-1] in ends_of(model)),
            }
            if prompt.answer_tokens is not None:
                answer = prompt.ids[-prompt.answer_tokens :]
                if self._is_cut_off(tokens, answer, bool(labels["ended"])):
                    cut_off.append(len(answer))
                else:
                    labels["right"] = int(tuple(tokens[: len(answer)]) == answer)
            ids = (*question_of(prompt), *tokens)
            written.append(replace(prompt, ids=ids, answer_tokens=len(tokens), labels=labels))
        if cut_off:
            answers = sum(prompt.answer_tokens is not None for prompt in prompts)
            warn(
                f"For {len(cut_off)} of {answers} prompts with answers, the {self.tokens} tokens that were written "
                "agree with an answer that has more; whether it is right is unknown. Write more tokens "
                f"(write={max(cut_off)})."
            )
        unended = sum(prompt.labels["ended"] == 0 for prompt in written)
        # a model without such a token never ends a text, and one token is asked for without any end
        if ends_of(model) and self.tokens > 1 and unended > MOST_CUT_OFF * len(written):
            warn(
                f"The limit of {self.tokens} tokens ended {unended} of {len(written)} continuations "
                f"({unended / len(written):.0%}) before the model did. Write more tokens to have them whole."
            )
        return replace(prompts, items=tuple(written), dataset=f"{prompts.dataset} ({self})", record=None)

    def _is_cut_off(self, tokens: Sequence[int], answer: Sequence[int], ended: bool) -> bool:
        """Return whether the answer may still have come, had more tokens been allowed."""
        return not ended and len(tokens) < len(answer) and tuple(tokens) == tuple(answer[: len(tokens)])

    def _require_possible(self, model: Model, prompts: Prompts) -> None:
        if model.placement == "stream":
            raise ModelError(
                "Writing reads all weights for every token, and the blocks of this model are streamed. Load it whole "
                "(placement='resident'), or survey texts that were written elsewhere."
            )
        if not model.hf.can_generate():
            raise ModelError(f"{type(model.hf).__name__} cannot generate; survey texts that were written elsewhere.")
        clash = next((name for name in LABELS if name in prompts.labels), None)
        if clash is not None:
            raise PromptError(f"The prompts have a label {clash!r}, which says what was written. Rename it.")
        never = sorted(end for end in ends_of(model) if not 0 <= end < model.vocabulary)
        if never:
            warn(
                f"eos_token_id {', '.join(map(str, never))} of the generation settings of {model.name} is outside of "
                f"its vocabulary (0 to {model.vocabulary - 1}), so that it never ends a text. Was it taken from "
                "another model?"
            )
        most = model.max_tokens
        longest = max(prompts, key=lambda prompt: len(question_of(prompt)))
        if most is not None and len(question_of(longest)) + self.tokens > most:
            raise PromptError(
                f"Prompt {longest.id!r} has {len(question_of(longest))} tokens and would have {self.tokens} more, and "
                f"{model.name} takes {most}. Write fewer tokens, or leave out longer prompts."
            )

    def texts(self, model: Model, prompts: Prompts, *, title: str, progress: bool = True) -> list[list[int]]:
        """Return what the model, as it runs at the moment, writes to prompts in place of their answers.

        Args:
            title: of the progress bar.
        """
        cached = writes_on_a_cache(model.hf)
        texts = []
        with ProgressBar(title, len(prompts) * self.tokens, quiet=not progress) as bar:
            for prompt in prompts:
                texts.append(self._write_after(model, question_of(prompt), cached))
                bar.advance(self.tokens)
        return texts

    @torch.no_grad()
    def _write_after(self, model: Model, question: Sequence[int], cached: bool) -> list[int]:
        """Return what is written after one question, the end of the text included; at least one token."""
        hf: Any = model.hf
        ids_1T = torch.tensor([list(question)], device=model.device)
        reset_rotary(hf)
        settings = GenerationConfig(
            max_new_tokens=self.tokens,
            do_sample=self.temperature > 0,
            **({"temperature": self.temperature, "top_k": 0, "top_p": 1.0} if self.temperature > 0 else {}),
            eos_token_id=sorted(ends_of(model)) or None,
            pad_token_id=min(ends_of(model), default=0),
            use_cache=cached,
        )
        with evaluating(hf), generating_by(hf, settings), torch.random.fork_rng():
            # each prompt has its own draw, whatever others there are
            torch.manual_seed(_seed_of(self.seed, question))
            sequence = hf.generate(ids_1T, attention_mask=torch.ones_like(ids_1T))
        tokens: list[int] = sequence[0, len(question) :].tolist()
        return tokens


def writing_of(tokens: int | None, temperature: float | None, seed: int) -> Writing | None:
    """Return how a survey's prompts are continued; None where they are not."""
    return None if tokens is None else Writing(tokens, temperature or 0.0, seed)


def ends_of(model: Model) -> frozenset[int]:
    """Return the tokens that end a text, by the model's own settings."""
    return ends_in_settings(model.hf)


def ends_in_settings(hf: PreTrainedModel) -> frozenset[int]:
    """Return the tokens that end a text, by the generation settings of a model of transformers."""
    end = getattr(hf.generation_config, "eos_token_id", None)
    ends = end if isinstance(end, list | tuple) else [end]
    return frozenset(int(token) for token in ends if token is not None)


def question_of(prompt: TokenizedPrompt) -> tuple[int, ...]:
    """Return a prompt without its answer."""
    return prompt.ids if prompt.answer_tokens is None else prompt.ids[: -prompt.answer_tokens]


def _seed_of(seed: int, question: Sequence[int]) -> int:
    digest = hashlib.sha256(repr((seed, list(question))).encode()).digest()
    return int.from_bytes(digest[:7])
