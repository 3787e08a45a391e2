"""What one architecture family declares: where its blocks, contributions, final norm and readout are.

A declaration is data only. Everything it says is checked against the live model when it is loaded
(see ``bathyscope.model.anatomy.checks``), so a wrong path is an error with a measured gap, never a wrong number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bathyscope.errors import OptionError, describe_value

GUIDE: Final = "docs/own_architecture.md"
"""The page for models of one's own, as messages name it."""


def _are_texts(values: object) -> bool:
    """Say whether these are a list of texts, which a text alone is not."""
    return isinstance(values, tuple | list) and all(isinstance(value, str) for value in values)


@dataclass(frozen=True)
class Site:
    """Where one contribution to the residual stream is read inside a block.

    A contribution is what is *added* to the residual stream, not merely a module's output.

    Args:
        path: submodule path inside the block, or several alternatives; the first that exists in the given
            block is used (hybrid families have different mixers in different blocks).
        minus: name of the submodule's argument to subtract from its output, for modules that return
            residual-added states (BLOOM, MPT).
        scale: attribute of the block whose value multiplies the output before it is added (Granite's
            ``residual_multiplier``).
        also: further sites summed into the same contribution (experts next to a shared MLP, a state-space
            mixer next to attention); one whose path is absent from a block adds nothing there.

    Example:
        >>> bathyscope.extend.Site("mixer", scale="multiplier").paths
        ('mixer',)
    """

    path: str | tuple[str, ...]
    minus: str | None = None
    scale: str | None = None
    also: tuple[Site, ...] = ()

    def __post_init__(self) -> None:
        paths = (self.path,) if isinstance(self.path, str) else self.path
        if not _are_texts(paths) or not paths or not all(path.strip() for path in paths):
            raise OptionError(
                f"Site: path={describe_value(self.path)} is no path; give a text such as 'self_attn', or several."
            )

    @property
    def paths(self) -> tuple[str, ...]:
        """The alternatives, always as a tuple."""
        return (self.path,) if isinstance(self.path, str) else self.path


@dataclass(frozen=True)
class Family:
    """Anatomy of one architecture family; all paths start at the causal language model.

    Args:
        name: the family's short name, e.g. ``"llama"``.
        model_types: the ``config.model_type`` values it covers.
        blocks: path of the list of blocks; of a looped model with several lists all paths, as in ``"a + b"``.
        final_norm: path of the norm before the readout; None, or a path that holds None, means no norm.
        attention: where the attention (or token mixer) contribution is read; None = not available.
        mlp: where the MLP (or experts) contribution is read; None = not available.
        others: contributions of neither kind (Gemma 4's per-layer embeddings).
        parts_when: (boolean config attribute, value) under which ``attention`` and ``mlp`` are available;
            with another value they cannot be separated (post-norm OPT).
        block_scale: attribute of the block that multiplies its whole output (Gemma 4's ``layer_scalar``):
            h_{l+1} = scale · (h_l + a_l + m_l + others), contributions being read before it.
        head: path of the unembedding.
        parallel: both contributions read the block's input, so there is no middle residual. A string names
            the boolean config attribute that decides.
        projection: path of a module between final norm and head (OPT's ``project_out``).
        logit_multiplier: config attribute that multiplies the logits (Cohere).
        logit_divisor: config attribute that divides the logits (Granite).
        logit_softcap: config attribute of ``c·tanh(x/c)`` on the logits (Gemma 2).
        logit_entries: config attribute that counts the logits, where the unembedding has padded rows (Inkling).
        loops: attribute of the configuration that counts the loops of a looped model, so that it can run more or fewer.
        exit_gate: path of a module that a looped model reads after each loop, which gives one number for each token:
            its sigmoid is the probability of leaving there.
        initial_state: method, by its path, that draws the random state in front of the first loop; with
            ``config.state_seed`` set, every token of every prompt gets the same draw in all forwards.
        earlier_streams: where blocks attend over the streams of earlier blocks, the argument that takes them, and the
            attribute of a block that says whether the stream in front of it is stored.
        streams_in_width: attribute of the configuration that counts the streams of a state whose width holds them all
            (Qwen4).
        adds_to_streams: blocks of a model with several streams only add to each of them, so that what changes in a
            stream is what the block wrote; not so where streams are mixed or scaled.
        passes: argument of a block that takes the second of what the block before returned (router states).
        own_readout: what is between the last block and the unembedding is no module, or several, and is computed by
            the model's own forward, as where there are several streams and no ``final_norm`` reads them. Declared, it
            tells without the model that no stored stream can be read out.
        idle: submodule of those blocks in the lists that do not run on text alone, and are left out (Mllama's attention
            to an image).
        paired: where a block takes and gives two streams, for each the name of the argument that takes it and of the
            field of the result that gives it (Reformer).
        chunk: attribute of the configuration that divides the number of tokens of longer prompts: the model's own
            forward pads them at the end, and so do blocks by themselves.
        tokens: argument of a block that says how many tokens a prompt had before it was padded.
        requires: attribute of the configuration, the value under which the family can be measured (of a list, that of
            each entry), and the reason why it cannot under another.
        refused: the reason why this family cannot be measured at all, else None.

    Example:
        >>> family = bathyscope.extend.Family("mine", ("llama",), attention=bathyscope.extend.Site("self_attn"))
        >>> bathyscope.load("model", family=family).anatomy.family.name
        'mine'
        >>> bathyscope.extend.Family("two", ("two",), blocks="low.layers + high.layers").block_lists
        ('low.layers', 'high.layers')
    """

    name: str
    model_types: tuple[str, ...]
    blocks: str = "model.layers"
    final_norm: str | None = "model.norm"
    attention: Site | None = Site("self_attn")
    mlp: Site | None = Site("mlp")
    others: tuple[Site, ...] = ()
    parts_when: tuple[str, bool] | None = None
    block_scale: str | None = None
    head: str = "lm_head"
    parallel: bool | str = False
    projection: str | None = None
    logit_multiplier: str | None = None
    logit_divisor: str | None = None
    logit_softcap: str | None = None
    logit_entries: str | None = None
    loops: str | None = None
    exit_gate: str | None = None
    initial_state: str | None = None
    earlier_streams: tuple[str, str] | None = None
    streams_in_width: str | None = None
    adds_to_streams: bool = False
    passes: str | None = None
    own_readout: bool = False
    idle: str | None = None
    paired: tuple[tuple[str, str], tuple[str, str]] | None = None
    chunk: str | None = None
    tokens: str | None = None
    requires: tuple[str, object, str] | None = None
    refused: str | None = None

    def __post_init__(self) -> None:
        if not _are_texts(self.model_types):
            raise OptionError(
                f"Family {self.name!r}: model_types={describe_value(self.model_types)} are no list of types; give one "
                "such as ('llama',)."
            )
        optional = [site for site in (self.attention, self.mlp) if site is not None]
        others = self.others if isinstance(self.others, tuple | list) else (self.others,)
        wrong = next((site for site in (*optional, *others) if not isinstance(site, Site)), None)
        if wrong is not None:
            part = "attention" if wrong is self.attention else "mlp" if wrong is self.mlp else "others"
            raise OptionError(
                f"Family {self.name!r}: {part}={describe_value(getattr(self, part))} is no Site; give one such as "
                f"Site('mlp'){' for each' if part == 'others' else ', or None where it cannot be read'}."
            )

    def refusal(self, config: object) -> str:
        """Return why a model of this family cannot be measured, by its configuration alone; empty where it may."""
        if self.refused or self.requires is None:
            return self.refused or ""
        attribute, allowed, reason = self.requires
        value = getattr(config, attribute, None)
        entries = value if isinstance(value, list | tuple) else [value]
        if all(entry == allowed for entry in entries):
            return ""
        return f"with {attribute}={value!r} {reason}. It can with {attribute}={allowed!r}"

    @property
    def exception(self) -> str:
        """Return under which value of its configuration alone this family is measured; empty for most."""
        return "" if self.requires is None else f"unless {self.requires[0]}={self.requires[1]!r}"

    @property
    def block_lists(self) -> tuple[str, ...]:
        """The paths of all lists of blocks; one for nearly all families."""
        return tuple(path.strip() for path in self.blocks.split("+"))
