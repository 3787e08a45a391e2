"""Comparing next-token distributions of rows with a reference's: read in large products, compared in small slices.

Each product holds the same tokens of the reference and of as many rows as it has room for, since a matrix product
depends on the batch that it is in: what differs between a row and its reference is then not how they were read.
Nothing of size tokens × vocabulary outlives a product.
"""

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock

import torch
from torch import Tensor

from bathyscope.wavefront.calls import even_pieces, in_pieces
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.metrics import METRICS, SEVERAL_VALUES, Pair
from bathyscope.wavefront.reader import Reader

_COMPARING = "Comparing predictions"
_MANY_METRICS = 8
"""From this many on, a slice takes some forty operations. Of fewer, threads that share each operation are as fast."""


@torch.no_grad()
def compare(
    reader: Reader,
    reference_ND: Tensor,
    rows: Sequence[Tensor],
    metrics: Sequence[str],
    *,
    targets_N: Tensor | None = None,
    norm_row: Callable[[Tensor, Tensor], Tensor] | None = None,
    k: int = 5,
    top_p: float = 0.9,
    apart: bool = False,
) -> dict[str, Tensor]:
    """Metrics of every row against the reference at every token.

    Args:
        reader: of the model.
        rows: final states [N, width] of each row, same tokens; a row that is ``reference_ND`` itself is not
            read again.
        targets_N: ids of the next tokens, −1 after the last token; for ``loss``.
        norm_row: (row vectors, reference vectors) → what the unembedding takes, where rows are normed otherwise than
            the reference.
        apart: each row has a product of its own. On a CPU products of a few tokens are summed in another order than
            large ones, and round less: such rows are read more exactly, though each reads all of the unembedding.

    Returns:
        name → float64 [rows, N], or [rows, N, TOP] of the top tokens.
    """
    # a reference among the rows is compared with itself, where it is read as it is
    is_reference = [norm_row is None and row is reference_ND for row in rows]
    read_rows = [row for row, same in zip(rows, is_reference) if not same]
    comparison = _Comparison(reader, reference_ND, read_rows, metrics, targets_N, norm_row, k, top_p, apart)
    comparison.run(with_reference=any(is_reference))
    if not any(is_reference):
        return comparison.values
    # the reference's own values come after those of the rows that were read
    places = iter(range(len(read_rows)))
    order = [len(read_rows) if same else next(places) for same in is_reference]
    if order == list(range(len(rows))):
        return comparison.values
    # rows one by one instead of an index, which would have to be copied to an accelerator
    return {name: torch.stack([values[place] for place in order]) for name, values in comparison.values.items()}


class _Comparison:
    """Rows that are compared with a reference; ``values`` holds what is finished, name → [rows, N, …]."""

    def __init__(
        self,
        reader: Reader,
        reference_ND: Tensor,
        rows: Sequence[Tensor],
        metrics: Sequence[str],
        targets_N: Tensor | None,
        norm_row: Callable[[Tensor, Tensor], Tensor] | None,
        k: int,
        top_p: float,
        apart: bool,
    ) -> None:
        self.values: dict[str, Tensor] = {}
        self._reader, self._reference_ND, self._rows, self._metrics = reader, reference_ND, rows, metrics
        self._targets_N, self._norm_row, self._k, self._top_p = targets_N, norm_row, k, top_p
        self._apart = apart
        # slices are compared side by side, and the first of them makes the array
        self._making = Lock()

    def run(self, *, with_reference: bool) -> None:
        """Reads and compares everything.

        Args:
            with_reference: the reference is compared with itself too, as a last row.
        """
        tokens, device = self._reference_ND.shape[0], self._reference_ND.device
        most = self._reader.product_tokens(device)
        self._n_values = len(self._rows) + with_reference
        if not self._n_values:
            return

        def read_rows(first_row: int, last_row: int) -> None:
            rows = range(first_row, last_row)
            itself = with_reference and last_row == len(self._rows)
            at_once = max(1, most // (1 + len(rows)))
            # where a single token of several rows is out of memory, fewer rows are read together
            read = partial(self._read, rows, itself)
            in_pieces(tokens, at_once, read, _COMPARING, device, last=len(rows) < 2)

        if self._rows:
            # the reference rides in each product, so the more rows share one, the fewer times it is read
            in_pieces(len(self._rows), most - 1, read_rows, _COMPARING, device)
        else:
            read_rows(0, 0)

    def _read(self, rows: range, itself: bool, first: int, last: int) -> None:
        """Reads the tokens ``first`` … ``last`` − 1 of the reference and some rows, and compares them in slices."""
        head, device = self._reader.head, self._reference_ND.device
        reference_ND = self._reference_ND[first:last]
        row_states = [self._rows[row][first:last] for row in rows]
        if self._norm_row is None:
            normed = head.normed(torch.cat([*row_states, reference_ND])).split(last - first)
        else:
            repeated_ND = reference_ND.repeat(len(rows), 1)
            normed = self._norm_row(torch.cat(row_states), repeated_ND).split(last - first)
            normed = (*normed, head.normed(reference_ND))
        # the reference comes last, so that it is one more row where it is compared with itself too
        product_RNV = self._reader.product_of_rows(normed, device, apart=self._apart)
        n_rows, most = len(rows) + itself, self._reader.slice_tokens(device)

        def compare_slice(start: int, stop: int) -> None:
            targets_N = None if self._targets_N is None else self._targets_N[first + start : first + stop]
            ref = Distribution(head.finish(product_RNV[-1, start:stop]))
            for low, high in even_pieces(n_rows, most // (stop - start)):
                alone = low == len(rows)
                row = ref if alone else Distribution(head.finish(product_RNV[low:high, start:stop]))
                pair = Pair(ref, row, targets_N, self._k, self._top_p)
                together, tokens = slice(rows.start + low, rows.start + high), slice(first + start, first + stop)
                # At once: small arrays that lived on would lie between the large ones of the next slice, which then
                # do not fit where those of this one were, so that the heap grows by hundreds of MB.
                for name in self._metrics:
                    self._keep(together, tokens, name, METRICS[name](pair))

        slices = even_pieces(last - first, most)
        if len(self._metrics) >= _MANY_METRICS:
            self._reader.side_by_side([partial(compare_slice, *tokens) for tokens in slices], device)
            return
        for start, stop in slices:
            compare_slice(start, stop)

    def _keep(self, rows: slice, tokens: slice, name: str, values: Tensor) -> None:
        """Keeps a metric of some rows and tokens, which no other slice has."""
        whole = self._n_values, len(self._reference_ND)
        part = rows.stop - rows.start, tokens.stop - tokens.start
        several = values.shape[values.ndim - (name in SEVERAL_VALUES) :]
        values = values.reshape(*part, *several)
        if part == whole:
            self.values[name] = values
            return
        with self._making:
            if name not in self.values:
                self.values[name] = values.new_empty((*whole, *several))
        self.values[name][rows, tokens] = values


@torch.no_grad()
def at_one_position(reader: Reader, control_D: Tensor, rows_ND: Tensor, metric: Callable[[Pair], Tensor]) -> Tensor:
    """A metric of rows against the control at one position, [rows, …] in float64."""
    values: dict[int, Tensor] = {}
    device = rows_ND.device

    def read(first: int, last: int) -> None:
        normed_ND = reader.head.normed(torch.cat([control_D[None], rows_ND[first:last]]))
        product_NV = reader.product(normed_ND, device)
        ref = Distribution(reader.head.finish(product_NV[:1]))
        slices = product_NV[1:].split(reader.slice_tokens(device))
        # one distribution at a time: each holds several numbers for every token of the vocabulary
        values[first] = torch.cat(
            [metric(Pair(ref, Distribution(reader.head.finish(slice_NV)), None)) for slice_NV in slices]
        )

    in_pieces(len(rows_ND), reader.product_tokens(device) - 1, read, _COMPARING, device)
    return torch.cat([values[place] for place in sorted(values)])


def same_or(reference_ND: Tensor, other_ND: Tensor) -> Tensor:
    """The reference itself where ``other_ND`` has its very bits (it need not be read again), else the other."""
    return reference_ND if torch.equal(reference_ND, other_ND) else other_ND
