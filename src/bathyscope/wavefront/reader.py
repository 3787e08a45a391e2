"""One reader of logits for the whole program: residual vectors in, logits out, many tokens in one product.

The unembedding is the largest matrix of a model, and each product reads all of it from memory. On a CPU that takes as
long as the arithmetic of about a hundred tokens, so products hold up to 256 of them, of several rows where tokens are
few. Arithmetic over the vocabulary, however, is fast only on arrays that stay in a cache. So logits are computed in
large products and looked at in small slices. On an accelerator both are as large as the room for them.

Suffixes: R rows (the reference first), N tokens, D width, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import torch
from torch import Tensor

from bathyscope.errors import ModelError, is_out_of_memory, warn
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.memory import reuse_freed_memory
from bathyscope.wavefront.calls import in_pieces
from bathyscope.wavefront.distribution import maxima_of_segments, most_probable
from bathyscope.wavefront.places import is_accelerator
from bathyscope.wavefront.workers import Result, SliceWorkers, worker_count

_PRODUCT_TOKENS: Final = 256
"""Tokens in one product on a CPU: beyond it the unembedding's way from memory no longer counts."""
_PRODUCT_BYTES: Final = 160 << 20
_SLICE_ENTRIES: Final = 1 << 18
"""Logits that are looked at together on a CPU: 2 MiB in float64, of which a few arrays live at once."""
_COPIES: Final = 8
"""Float64 arrays of a slice that live at once, at most."""
_USUAL_COPIES: Final = 5
"""How many live at once when a survey is at its largest."""
_ACCELERATOR_BYTES: Final = 1 << 30
_FEWEST_ON_ACCELERATOR: Final = 8
_READING: Final = "Reading predictions"


class Head(Protocol):
    """What a reader needs of a model's readout (``model.anatomy.readout.Readout``)."""

    def normed(self, resid_ND: Tensor) -> Tensor:
        """What the unembedding takes of residual vectors."""

    def product(self, normed_ND: Tensor) -> Tensor:
        """The unembedding's product."""

    def finish(self, product_NV: Tensor) -> Tensor:
        """The logits: what a family still does to each entry."""


class Reader:
    """Reads residual vectors out as logits.

    Args:
        head: of the model.
        vocabulary: how many logits a token has.
        itemsize: bytes of one.
        room: bytes that logits, and what is computed from them, may take at once; None = by device.

    Raises:
        ModelError: one token's logits and their reference's do not fit into the room.
    """

    def __init__(self, head: Head, vocabulary: int, *, itemsize: int = 4, room: int | None = None) -> None:
        self.head, self.vocabulary = head, vocabulary
        self._itemsize, self._room = itemsize, room
        self._takes_several_rows = True
        self._workers = SliceWorkers()
        self.on_read: Callable[[int], None] | None = None
        """Told how many vectors each product has read, where somebody counts them."""
        reuse_freed_memory()
        least = self._slice_bytes(1) + 2 * self._product_bytes(1)
        if room is not None and room < least:
            raise ModelError(
                f"Comparing the logits of one token (a vocabulary of {vocabulary}) takes {least / 1e9:.3g} GB, and "
                f"memory= leaves {room / 1e9:.3g} GB for it; allow more."
            )

    @classmethod
    def of(cls, anatomy: Anatomy, room: int | None = None) -> "Reader":
        """The reader of a model."""
        itemsize = (anatomy.dtype or torch.float32).itemsize
        return cls(anatomy.readout, anatomy.vocabulary, itemsize=itemsize, room=room)

    def read(self, resid_ND: Tensor) -> Tensor:
        """Logits [N, V] of residual vectors, in one product."""
        return self.head.finish(self.product(self.head.normed(resid_ND), resid_ND.device))

    def read_in_slices(self, resid_ND: Tensor, look: Callable[[int, Tensor], None]) -> None:
        """Reads many vectors; where a product is out of memory, again in smaller ones.

        Args:
            look: takes the number of a slice's first token and its logits; what it keeps goes by that number, since
                some slices are shown twice where memory runs out.
        """
        device = resid_ND.device

        def read(first: int, last: int) -> None:
            product_NV = self.product(self.head.normed(resid_ND[first:last]), device)
            place = first
            for slice_NV in product_NV.split(self.slice_tokens(device)):
                look(place, self.head.finish(slice_NV))
                place += len(slice_NV)

        in_pieces(len(resid_ND), self.product_tokens(device), read, _READING, device)

    def top1(self, resid_ND: Tensor) -> Tensor:
        """The most probable token behind each vector, [N]."""
        ids_N = torch.empty(len(resid_ND), dtype=torch.long, device=resid_ND.device)

        def look(first: int, logits_NV: Tensor) -> None:
            ids_N[first : first + len(logits_NV)] = most_probable(logits_NV, maxima_of_segments(logits_NV))

        self.read_in_slices(resid_ND, look)
        return ids_N

    def product(self, normed_ND: Tensor, device: torch.device) -> Tensor:
        """The unembedding's product [N, V], brought to a device; ``head.finish`` makes logits of it."""
        product_NV = self.head.product(normed_ND).to(device)
        if self.on_read is not None:
            self.on_read(len(normed_ND))
        return product_NV

    def product_of_rows(self, normed: Sequence[Tensor], device: torch.device, *, apart: bool = False) -> Tensor:
        """One product of several rows, each [N, D] → [R, N, V].

        A head that refuses several rows at once is given one at a time from then on, with a note.

        Args:
            apart: each row has a product of its own.
        """
        if len(normed) > 1 and self._takes_several_rows and not apart:
            try:
                return self.product(torch.cat(list(normed)), device).unflatten(0, (len(normed), -1))
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                reason = " ".join(str(error).split())[:80]
            # if the head refuses a single row too, its own error is raised below, without the note
            alone = [self.product(row_ND, device) for row_ND in normed]
            warn(f"The unembedding does not take several rows in one product ({reason}); rows are read one at a time.")
            self._takes_several_rows = False
            return torch.stack(alone)
        if len(normed) == 1:
            return self.product(normed[0], device)[None]
        return torch.stack([self.product(row_ND, device) for row_ND in normed])

    def side_by_side(self, jobs: Sequence[Callable[[], Result]], device: torch.device) -> list[Result]:
        """Results of jobs on one slice each, of several at once on a CPU."""
        return self._workers.run(jobs, self._slices_at_once(device))

    def _slices_at_once(self, device: torch.device) -> int:
        # where memory is limited, there is room for one
        return 1 if self._room is not None else worker_count(device)

    def product_tokens(self, device: torch.device) -> int:
        """Tokens in one product, at least two."""
        if is_accelerator(device):
            return self.slice_tokens(device)
        room = _PRODUCT_BYTES if self._room is None else self._room - self._slice_bytes(self.slice_tokens(device))
        return max(2, min(_PRODUCT_TOKENS, min(room, _PRODUCT_BYTES) // self._product_bytes(1)))

    def slice_tokens(self, device: torch.device) -> int:
        """Tokens whose logits are looked at together."""
        if is_accelerator(device):
            room = _ACCELERATOR_BYTES if self._room is None else min(self._room, _ACCELERATOR_BYTES)
            fewest = _FEWEST_ON_ACCELERATOR if self._room is None else 2
            return max(fewest, room // self._slice_bytes(1))
        tokens = max(1, min(_PRODUCT_TOKENS, _SLICE_ENTRIES // self.vocabulary))
        if self._room is None:
            return tokens
        # half of the room is the product's
        return max(1, min(tokens, self._room // 2 // self._slice_bytes(1)))

    def bytes_at_once(self, vectors: float, device: torch.device) -> int:
        """What reading and comparing this many vectors usually takes."""
        tokens = min(vectors, self.slice_tokens(device) * self._slices_at_once(device))
        slices = self._slice_bytes(1) * _USUAL_COPIES / _COPIES * tokens
        products = self._product_bytes(1) * min(vectors, self.product_tokens(device))
        return int(slices + (0 if is_accelerator(device) else products))

    def _slice_bytes(self, tokens: int) -> int:
        return tokens * _COPIES * 8 * self.vocabulary

    def _product_bytes(self, tokens: int) -> int:
        return tokens * self._itemsize * self.vocabulary
