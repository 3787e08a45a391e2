"""Bugs in what reviewers asked for: blocks in parallel, and what a removed block is made up for."""

from __future__ import annotations

from bug import Bug

_PARALLEL = (
    Bug(
        "model/anatomy/parallel",
        "the-common-stream-counts-once-for-each-block",
        "total = total + (widened(output).to(total.device) - widened(before).to(total.device))",
        "total = total + widened(output).to(total.device)",
        "surgery/scheduled/test_parallel.py",
    ),
    Bug(
        "surgery/order/chain",
        "blocks-in-parallel-share-a-layer-of-the-cache",
        "                slot += 1\n",
        "            slot += 1\n",
        "surgery/scheduled/test_parallel.py",
    ),
    Bug(
        "wavefront/full",
        "a-block-in-parallel-reads-what-the-first-has-written",
        "                self.state[runner.slot] = runner.before\n",
        "",
        "measures/test_parallel.py",
    ),
    Bug(
        "wavefront/full",
        "protected-tokens-in-parallel-are-a-boundary-behind",
        "sum(len(blocks_of(step)) for step in self.track.steps[: self.done])",
        "self.done",
        "measures/test_parallel.py::test_first_tokens_may_be_protected",
    ),
    Bug(
        "wavefront/histories",
        "a-history-in-parallel-runs-one-block-after-another",
        "outputs.append(self._replay.run(block, number, resid, prompts_N, state=passed))",
        "outputs.append(self._replay.run(block, number, out, prompts_N, state=passed))",
        "measures/test_parallel.py::test_a_scan_of_orders_runs_groups_too",
    ),
    Bug(
        "model/anatomy/measured_gaps",
        "a-block-takes-from-one-in-parallel",
        "            for block in stage:\n",
        "            for block in stage:\n                ran.update(stage)\n",
        "surgery/scheduled/test_parallel.py",
    ),
    Bug(
        "schedule",
        "a-group-belongs-to-the-clean-prefix",
        "return min([prefix, *(self.order.index(group[0]) for group in self.groups)])",
        "return prefix",
        "test_schedule.py",
    ),
    Bug(
        "surgery/checkpoint/configuration",
        "a-checkpoint-of-blocks-in-parallel-runs-them-in-turn",
        "    if schedule.groups:\n        raise ModelError(",
        "    if not schedule:\n        raise ModelError(",
        "surgery/scheduled/test_parallel.py::test_nothing_that_writes_a_checkpoint_takes_blocks_in_parallel",
    ),
)

_REMOVED = (
    Bug(
        "measures/removed",
        "a-prompt-is-part-of-its-own-mean",
        "return (self.total_LD[block] - own_BD) / others_B[:, None]",
        "return self.total_LD[block].expand_as(own_BD) / self.tokens",
        "measures/test_removed.py",
    ),
    Bug(
        "measures/removed",
        "copies-of-a-prompt-are-other-prompts",
        "different = list({prompt.ids: prompt for prompt in prompts}.values())",
        "different = list(prompts)",
        "measures/test_removed.py::test_copies_of_a_prompt_are_no_other_prompts",
    ),
    Bug(
        "measures/removed",
        "protected-tokens-lose-their-direct-effect-too",
        "            removed_BTD[:, : self._first] = 0\n",
        "",
        "measures/test_removed.py::test_direct_effects_are_read_off_the_last_stream",
    ),
    Bug(
        "measures/removed",
        "self-repair-of-the-wrong-sign",
        'results["loss_direct"].values - results["loss"].values',
        'results["loss"].values - results["loss_direct"].values',
        "measures/test_removed.py",
    ),
    Bug(
        "measures/removed",
        "a-direct-effect-forgets-the-mean",
        "                removed_BTD -= self._means_BD[view.block][:, None]\n",
        "                pass\n",
        "measures/test_removed.py::test_direct_effects_are_read_off_the_last_stream",
    ),
    Bug(
        "wavefront/full",
        "a-mean-takes-the-place-of-the-whole-stream",
        "(widened(instead) + birth.filled.values_BD[:, None])",
        "(0 * widened(instead) + birth.filled.values_BD[:, None])",
        "measures/test_removed.py::test_a_mean_of_other_prompts_takes_the_place_of_a_contribution",
    ),
    Bug(
        "measures/of/drop",
        "a-mean-over-fewer-prompts-stays",
        'return self.options.replace == "zero" and super().stays_valid(before, prompts)',
        "return super().stays_valid(before, prompts)",
        "measures/test_removed.py::test_means_are_no_longer_those_of_a_smaller_survey",
    ),
)

BUGS = (*_PARALLEL, *_REMOVED)
