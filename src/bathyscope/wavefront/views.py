"""What is shown of a call's rows: as they ran, cut to their prompt, or as the tails they stand for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bathyscope.wavefront.calls import CallResult
from bathyscope.wavefront.probe import BaselineView, RowsView
from bathyscope.wavefront.rows import Request, SkipBefore

Served = Sequence[Sequence[Request]]
Cut = tuple[slice, slice]
"""Of a batch's prompts, and of their tokens."""
_ALL: Cut = (slice(None), slice(None))


def of_full(plain: BaselineView, served: Served, result: CallResult, lengths: Sequence[int]) -> Iterator[RowsView]:
    """Rows that own all tokens; then, for those seen from a token on, the views that tails would give."""
    yield _shown(plain, served, result, _ALL, _ALL)
    late: dict[tuple[int, int], list[tuple[int, Request]]] = {}
    for row, requests in enumerate(served):
        for request in requests:
            if isinstance(request, SkipBefore):
                late.setdefault((request.prompt, request.start), []).append((row, request))
    for (prompt, start), rows in late.items():
        picked = [row for row, _ in rows]
        some = replace(result, before=result.before[picked], after=result.after[picked])
        own = (slice(prompt, prompt + 1), slice(start, lengths[prompt]))
        yield _shown(plain, [(request,) for _, request in rows], some, own, own, prompt)


def of_tails(
    plain: BaselineView, requests: Sequence[Request], result: CallResult, prompt: int, start: int, length: int
) -> RowsView:
    """Tails of one prompt and start, without pads; slot s is that of ``requests[s − 1]``."""
    served = [(requests[slot - 1],) if slot else () for slot in result.slots]
    own = (slice(prompt, prompt + 1), slice(start, length))
    return _shown(plain, served, result, (slice(None), slice(length - start)), own, prompt)


def _shown(
    plain: BaselineView, served: Served, result: CallResult, held: Cut, own: Cut, prompt: int | None = None
) -> RowsView:
    """What a call's rows and its control have of the tokens ``own``, which stand at ``held`` in them."""
    return RowsView(
        block=plain.block,
        requests=served,
        before=result.before[:, *held],
        after=result.after[:, *held],
        control_before=result.control_before[held],
        control_after=result.control_after[held],
        baseline_before=plain.before_BTD[own],
        baseline_after=plain.after_BTD[own],
        prompt=prompt,
        start=own[1].start or 0,
    )
