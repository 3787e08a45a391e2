"""Views of a call's rows: as they ran, cut to their prompt, or cut to the tails that they stand for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bathyscope.wavefront.calls import CallResult
from bathyscope.wavefront.probe import BaselineView, RowsView
from bathyscope.wavefront.rows import Request, SkipBefore

RequestsByRow = Sequence[Sequence[Request]]
Window = tuple[slice, slice]
"""A range of a batch's prompts, and one of their tokens."""
_ALL: Window = (slice(None), slice(None))


def of_full(
    plain: BaselineView, requests: RequestsByRow, result: CallResult, lengths: Sequence[int]
) -> Iterator[RowsView]:
    """Show rows that own all tokens; then, for rows that stand in for tails, the views that tails would give."""
    yield _view(plain, requests, result, _ALL, _ALL)
    late: dict[tuple[int, int], list[tuple[int, Request]]] = {}
    for row, row_requests in enumerate(requests):
        for request in row_requests:
            if isinstance(request, SkipBefore):
                late.setdefault((request.prompt, request.start), []).append((row, request))
    for (prompt, start), rows in late.items():
        picked = [row for row, _ in rows]
        picked_result = replace(result, before=result.before[picked], after=result.after[picked])
        window = (slice(prompt, prompt + 1), slice(start, lengths[prompt]))
        yield _view(plain, [(request,) for _, request in rows], picked_result, window, window, prompt)


def of_tails(
    plain: BaselineView, requests: Sequence[Request], result: CallResult, prompt: int, start: int, length: int
) -> RowsView:
    """Show tails of one prompt and start, without pads; slot s is that of ``requests[s − 1]``."""
    requests_by_row = [(requests[slot - 1],) if slot else () for slot in result.slots]
    in_rows = (slice(None), slice(length - start))
    in_batch = (slice(prompt, prompt + 1), slice(start, length))
    return _view(plain, requests_by_row, result, in_rows, in_batch, prompt)


def _view(
    plain: BaselineView,
    requests: RequestsByRow,
    result: CallResult,
    in_rows: Window,
    in_batch: Window,
    prompt: int | None = None,
) -> RowsView:
    """Return the view of some tokens, which are at ``in_rows`` in a call's rows and at ``in_batch`` in the batch."""
    return RowsView(
        block=plain.block,
        requests=requests,
        before=result.before[:, *in_rows],
        after=result.after[:, *in_rows],
        control_before=result.control_before[in_rows],
        control_after=result.control_after[in_rows],
        baseline_before=plain.before_BTD[in_batch],
        baseline_after=plain.after_BTD[in_batch],
        prompt=prompt,
        start=in_batch[1].start or 0,
    )
