"""Which schedules ``drop,swap,repeat:5`` stand for."""

from __future__ import annotations

import pytest
from support import waves

from bathyscope.errors import ModelError, OptionError
from bathyscope.schedule import Schedule
from bathyscope.surgery.benchmarks.variants import Variant, require_forms, runnable, variants


def test_each_kind_at_every_place_after_the_normal_model() -> None:
    found = variants(["drop", "swap", "repeat:3"], 5)
    assert [one.name for one in found] == [
        "standard",
        *(f"drop:{block}" for block in range(5)),
        *(f"swap:{block}" for block in range(4)),
        *(f"repeat:{start}+3" for start in range(3)),
    ]
    assert found[0].schedule.is_standard
    assert variants(["parallel"], 4)[1:] == tuple(
        Variant(f"parallel:{b}+{b + 1}", Schedule.standard(4).parallel(b, b + 1), "parallel", b, 2) for b in range(3)
    )
    assert found[3] == Variant("drop:2", Schedule.standard(5).drop(2), "drop", 2, 1)
    assert found[7] == Variant("swap:1", Schedule.standard(5).swap(1), "swap", 1, 2)
    assert found[-1] == Variant("repeat:2+3", Schedule.standard(5).repeat(2, length=3), "repeat", 2, 3)


def test_single_schedules_and_repetitions_of_the_same() -> None:
    found = variants("swap:3, drop:1,drop:1,order:0-2-1-3-4,standard,parallel:1-3", 5)
    assert [(one.name, one.kind, one.block) for one in found] == [
        ("standard", "standard", -1),
        ("swap:3", "swap", 3),
        ("drop:1", "drop", 1),
        ("order:0-2-1-3-4", "other", -1),
        ("parallel:1-3", "parallel", 1),
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("repeat", "'repeat' says too little; write drop, swap, parallel, repeat:5"),
        ("repeat:6", "windows of 1 to 5 blocks"),
        ("dorp", "Unknown schedule 'dorp'. Did you mean 'drop'?"),
        ("drop:5", "block 5 is out of range; this model has 5 blocks"),
    ],
)
def test_anything_else_is_refused(asked: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        variants([asked], 5)
    assert said in str(caught.value)


def test_what_cannot_run_is_left_out_or_refused() -> None:
    """In the zoo's Gemma 4, blocks 3 and 4 take the keys and values of block 1."""
    checks = waves.loaded("gemma4").checks
    with pytest.warns(UserWarning, match=r"would not find what they take from others: drop:1\."):
        kept = runnable(variants(["drop"], 5), checks, ["drop"])
    assert [one.name for one in kept] == ["standard", "drop:0", "drop:2", "drop:3", "drop:4"]
    with pytest.raises(ModelError, match=r"drop:1 cannot run: in this model block 3 takes .* block 1"):
        runnable(variants(["drop:1"], 5), checks, ["drop:1"])
    for asked in ([" drop:1"], "swap:2, drop:1"):
        with pytest.raises(ModelError, match="drop:1 cannot run"):
            runnable(variants(asked, 5), checks, asked)


def test_one_order_in_two_spellings_is_one_schedule() -> None:
    found = variants(["drop:1", "drop:01", "order:0-2-3-4", "order:0-1-2-3-4"], 5)
    assert [one.name for one in found] == ["standard", "drop:1"]


def test_the_forms_of_a_benchmark_are_listed() -> None:
    with pytest.raises(OptionError, match=r"'dorp'\. Did you mean 'drop'\? Allowed: drop, swap, parallel, repeat:5"):
        require_forms("drop:1,dorp")
    require_forms("drop,swap,parallel,repeat:5,standard,drop:3,order:0-2-1,dropruns:1")
