"""What is shown of a call's rows: as they ran, cut to their prompt, or as the tails they stand for."""

from collections.abc import Iterator, Sequence

from bathyscope.wavefront.calls import CallResult
from bathyscope.wavefront.probe import BaselineView, RowsView
from bathyscope.wavefront.rows import DirectBefore, Request, SkipBefore, SkipChannels

Served = Sequence[Sequence[Request]]


def of_full(plain: BaselineView, served: Served, result: CallResult, lengths: Sequence[int]) -> Iterator[RowsView]:
    """Rows that own all tokens; then, for those seen from a token on, the views that tails would give.

    Args:
        plain: the same block of the plain forward.
        served: the requests of every row.
        lengths: of the prompts.
    """
    whole = RowsView(
        block=plain.block,
        requests=served,
        before=result.before,
        after=result.after,
        control_before=result.control_before,
        control_after=result.control_after,
        baseline_before=plain.before_BTD,
        baseline_after=plain.after_BTD,
    )
    yield whole
    late: dict[tuple[int, int], list[tuple[int, Request]]] = {}
    for row, requests in enumerate(served):
        for request in requests:
            if isinstance(request, SkipBefore | SkipChannels | DirectBefore):
                late.setdefault((request.prompt, request.start), []).append((row, request))
    for (prompt, start), rows in late.items():
        yield _cut(whole, rows, prompt, slice(start, lengths[prompt]))


def _cut(whole: RowsView, rows: Sequence[tuple[int, Request]], prompt: int, own: slice) -> RowsView:
    """Some full rows' own tokens of one prompt."""
    one, picked = slice(prompt, prompt + 1), [row for row, _ in rows]
    return RowsView(
        block=whole.block,
        requests=[(request,) for _, request in rows],
        before=whole.before[picked][:, one, own],
        after=whole.after[picked][:, one, own],
        control_before=whole.control_before[one, own],
        control_after=whole.control_after[one, own],
        baseline_before=whole.baseline_before[one, own],
        baseline_after=whole.baseline_after[one, own],
        prompt=prompt,
        start=own.start,
    )


def of_tails(
    plain: BaselineView, requests: Sequence[Request], result: CallResult, prompt: int, start: int, length: int
) -> RowsView:
    """Tails of one prompt and start, without pads; slot s is that of ``requests[s − 1]``."""
    one, own, held = slice(prompt, prompt + 1), slice(start, length), slice(0, length - start)
    return RowsView(
        block=plain.block,
        requests=[(requests[slot - 1],) if slot else () for slot in result.slots],
        before=result.before[:, :, held],
        after=result.after[:, :, held],
        control_before=result.control_before[:, held],
        control_after=result.control_after[:, held],
        baseline_before=plain.before_BTD[one, own],
        baseline_after=plain.after_BTD[one, own],
        prompt=prompt,
        start=start,
    )
