from __future__ import annotations

from support.synthetic import synthetic_run

from bathyscope.pages.text import provenance

RUN = synthetic_run()


def test_configuration_is_flat_and_complete() -> None:
    pairs = dict(provenance.configuration(RUN))
    assert pairs["model"] == "example/model-12"
    assert pairs["weight_hash"] == "ab" * 32
    assert pairs["measures.repeat.length"] == "3"
    assert pairs["measures.drop"] == "{}"
    assert pairs["preset"] == "null"
    assert pairs["plan"] == "1 parts"


def test_record_has_versions_and_file_hashes() -> None:
    pairs = dict(provenance.record(RUN))
    assert pairs["versions.torch"] == "2.13.0"
    assert pairs["shard-00000.nc"] == f"SHA-256 {'12' * 32}"


def test_prompts_are_listed_up_to_a_limit() -> None:
    headings, rows, count = provenance.prompts(synthetic_run(L=2, prompts=300))
    assert headings == ["prompt_id", "n_tokens", "dataset"]
    assert (len(rows), count) == (provenance.PROMPTS_SHOWN, 300)
    assert (rows[7][0], rows[7][2]) == ("p7", "synthetic")


def test_options_of_a_measure_that_was_not_listed_are_empty() -> None:
    assert provenance.measure_options(RUN, "lens") == {"k": 5}
    assert provenance.measure_options(RUN, "absent") == {}
