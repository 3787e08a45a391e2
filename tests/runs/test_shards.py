"""A shard survives the trip to disk bit for bit, and is wholly there or absent."""

from __future__ import annotations

import hashlib
import io
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.synthetic_runs import bits, shard

from bathyscope.errors import StoreError
from bathyscope.runs.canonical import canonical
from bathyscope.runs.netcdf import encode
from bathyscope.runs.shards import decode, encode_results, read_results, read_shard

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_]

ROOT = xr.Dataset({"at_the_root": ("side", [1.5, 2.5])}, {"side": ["left", "right"], "label": ("side", ["", "é"])})


def write_shard(path: Path, datasets: dict[str, xr.Dataset]) -> str:
    content = encode(datasets)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def test_synthetic_shard_comes_back_bit_for_bit(tmp_path: Path) -> None:
    written = {name: canonical(dataset, name) for name, dataset in shard(0, 3).items()}
    sha256 = write_shard(tmp_path / "shard.nc", written)
    back = read_shard(tmp_path, "shard.nc", sha256, {})
    assert list(back) == ["skip", "erasure"]
    for name, dataset in shard(0, 3).items():
        assert bits(back[name]) == bits(written[name])
        for label in dataset.variables:
            np.testing.assert_array_equal(back[name][label].values, dataset[label].values, strict=False)
            assert back[name][label].dtype.kind == dataset[label].dtype.kind


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=3, min_side=0, max_side=4))
    ),
    # an array of text cannot hold closing NULs
    hnp.arrays(np.dtype("<U6"), 3, elements=st.text(st.characters(exclude_characters="\0"), max_size=6)),
)
def test_any_values_come_back_bit_for_bit(values: np.ndarray, text: np.ndarray) -> None:
    dims = [f"d{i}" for i in range(values.ndim)]
    given_dataset = xr.Dataset({"values": (dims, values), "text": ("t", text)}, coords={"label": ("t", text)})
    kept = canonical(given_dataset, "m")
    assert kept["values"].values.tobytes() == values.tobytes()
    assert kept["values"].dtype == values.dtype
    assert bits(decode(encode({"m": kept}))["m"]) == bits(kept)


def _in_the_file(content: bytes) -> dict[str, Any]:
    """What xarray's own reader finds in a file before it makes anything of it, in the order of the file."""
    tree = xr.open_datatree(io.BytesIO(content), engine="h5netcdf", decode_cf=False, create_default_indexes=False)
    return {
        node.path: {
            "attributes": list(node.attrs.items()),
            "sizes": dict(node.sizes),
            "variables": [
                (
                    name,
                    variable.dims,
                    *(
                        ("text", variable.values.tolist())
                        if variable.dtype.kind in "OU"
                        else (variable.dtype.str, variable.values.tobytes())
                    ),
                    list(variable.attrs.items()),
                )
                for name, variable in node.to_dataset(inherit=False).variables.items()
            ],
        }
        for node in tree.subtree
    }


def test_what_is_written_is_what_xarrays_own_writer_writes() -> None:
    """Names, values, types, lengths and attributes, also where a coordinate is of a dimension that others have."""
    kept = {"": ROOT, **shard(0, 3), "of_no_length": xr.Dataset({"none": ("pair", np.zeros(0))})}
    datasets, marks = {name: canonical(one, name or "root") for name, one in kept.items()}, {"kept_shard": "3"}
    plain = {
        f"/{name}": {v: {"_FillValue": None} for v in one.variables if one[v].dtype.kind == "f"}
        for name, one in datasets.items()
    }
    tree = xr.DataTree.from_dict({f"/{name}": one for name, one in datasets.items()})
    tree.attrs |= marks
    wanted = tree.to_netcdf(engine="h5netcdf", encoding=plain)
    assert wanted is not None
    assert _in_the_file(encode(datasets, marks)) == _in_the_file(bytes(wanted))


def test_dimensions_are_numbered_through_the_whole_file() -> None:
    """Readers in C take two dimensions of one number for the same, whatever their groups."""
    content = encode({name: canonical(one, name or "root") for name, one in {"": ROOT, **shard(0, 3)}.items()})
    numbers: list[int] = []
    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(lambda _, entry: numbers.extend([entry.attrs[n] for n in entry.attrs if n == "_Netcdf4Dimid"]))
    assert len(numbers) > 6
    assert sorted(numbers) == list(range(len(numbers)))


def test_the_same_datasets_are_the_same_bytes() -> None:
    datasets = {name: canonical(one, name) for name, one in shard(0, 3).items()}
    again = {name: one.copy(deep=True) for name, one in datasets.items()}
    assert encode(datasets, {"kept_shard": "3"}) == encode(again, {"kept_shard": "3"})


def test_xarrays_own_reader_finds_the_same() -> None:
    """Every kind of variable that a run holds: by its dimension, by others, of none, of no length, and text."""
    dataset = xr.Dataset(
        {
            "effect": (
                ("prompt", "block"),
                np.arange(6, dtype=np.float32).reshape(2, 3),
                {"units": "nats", "n": [1, 2]},
            ),
            "is_right": ("prompt", np.array([True, False])),
            "reason": ("prompt", np.array(["", "zu kurz – ¾"])),
            "one": ((), np.float64(0.1)),
            "said": ((), np.array("text")),
            "none": ("pair", np.zeros(0, np.int64)),
            "square": (("block", "block_2"), np.eye(3)),
        },
        coords={
            "prompt": np.array(["a", "bcd"]),
            "label": ("prompt", np.array([3, 4])),
            "block_2": [0, 1, 2],
            "seed": 7,
        },
        attrs={"source": "somewhere", "names": ["x", "y"]},
    )
    written = {"m": canonical(dataset, "m"), "other": canonical(dataset[["one", "none"]], "other")}
    content = encode(written, {"kept_of": "this"})
    tree = xr.open_datatree(io.BytesIO(content), engine="h5netcdf", decode_times=False)
    back = decode(content)
    assert list(back) == list(tree.children)
    for name, own in back.items():
        theirs = tree[name].to_dataset(inherit=False).load()
        xr.testing.assert_identical(own.astype(theirs.dtypes), theirs)
        xr.testing.assert_identical(own, written[name])
        assert list(own.variables) == list(theirs.variables)


def test_nan_payload_and_signed_zero_survive() -> None:
    words = np.array([0x7FC00001, 0xFFC00000, 0x80000000, 0x00000001], np.uint32)
    dataset = canonical(xr.Dataset({"x": ("i", words.view(np.float32))}), "m")
    assert decode(encode({"m": dataset}))["m"]["x"].values.view(np.uint32).tolist() == words.tolist()


def test_units_that_mean_time_to_netcdf_readers_stay_numbers() -> None:
    dataset = canonical(xr.Dataset({"x": ("i", np.array([1.5, 2.0]), {"units": "days since 2000-01-01"})}), "m")
    back = decode(encode({"m": dataset}))["m"]["x"]
    assert back.dtype == np.float64
    assert back.attrs == {"units": "days since 2000-01-01"}


def test_attributes_come_back_as_plain_values() -> None:
    attrs = {
        "formula": "‖h_{l+1} − h_l‖",
        "empty": "",
        "n": np.int64(3),
        "f": np.float32(0.5),
        "mixed": (1, 2.5),
        "names": ["a", "b"],
        "one": ["only"],
        "nan": float("nan"),
    }
    kept = canonical(xr.Dataset({"x": ("i", np.zeros(2), attrs)}, attrs={"k": np.array([1, 2])}), "m")
    back = decode(encode({"m": kept}))["m"]
    assert np.isnan(back["x"].attrs.pop("nan"))
    assert back["x"].attrs == {
        "formula": "‖h_{l+1} − h_l‖",
        "empty": "",
        "n": 3,
        "f": 0.5,
        "mixed": [1.0, 2.5],
        "names": ["a", "b"],
        "one": "only",
    }
    assert back.attrs == {"k": [1, 2]}
    assert {type(value) for value in back["x"].attrs.values()} == {str, int, float, list}


def test_text_that_hdf5_cannot_hold_is_replaced() -> None:
    kept = canonical(xr.Dataset({"x": ("i", np.array(["a\x00b", "\ud800"]))}), "m")
    assert kept["x"].values.tolist() == ["a\u2400b", "\ufffd"]
    assert bits(decode(encode({"m": kept}))["m"]) == bits(kept)


def test_foreign_byte_order_becomes_native() -> None:
    kept = canonical(xr.Dataset({"x": ("i", np.array([1.0, 2.0], ">f4"))}), "m")
    assert kept["x"].dtype == np.dtype("=f4")
    assert kept["x"].values.tolist() == [1.0, 2.0]


def test_canonical_copies() -> None:
    values = np.zeros(3)
    kept = canonical(xr.Dataset({"x": ("i", values)}), "m")
    values[:] = 7
    assert kept["x"].values.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("values", "given_type"),
    [
        (np.zeros(2, np.float16), "float16"),
        (np.zeros(2, complex), "complex128"),
        (np.array([None, "a"], object), "object"),
        (np.zeros(2, "datetime64[ns]"), "datetime64"),
    ],
)
def test_types_that_cannot_be_kept_are_refused(values: np.ndarray, given_type: str) -> None:
    with pytest.raises(StoreError, match=rf"skip\.x is of type {given_type}.*allowed: float32, float64, integers"):
        canonical(xr.Dataset({"x": ("i", values)}), "skip")


@pytest.mark.parametrize("value", [True, None, [], [1, "a"], {"a": 1}, 2**63])
def test_attributes_that_cannot_be_kept_are_refused(value: object) -> None:
    with pytest.raises(StoreError, match=r"Attribute 'flag' of skip\.x is .*which netCDF cannot hold; allowed: text"):
        canonical(xr.Dataset({"x": ("i", np.zeros(2), {"flag": value})}), "skip")


@pytest.mark.parametrize("name", ["scale_factor", "CLASS"])
def test_attribute_that_changes_values_in_netcdf_is_refused(name: str) -> None:
    with pytest.raises(StoreError, match=rf"Attribute '{name}' of skip\.x has a meaning of its own in netCDF"):
        canonical(xr.Dataset({"x": ("i", np.zeros(2), {name: 2.0})}), "skip")


def test_a_variable_that_is_called_as_a_dimension_of_others_keeps_its_name() -> None:
    given_dataset = canonical(xr.Dataset({"y": ("x", [1, 2]), "z": ("y", [1.0, 2.0, 3.0])}), "m")
    xr.testing.assert_identical(decode(encode({"m": given_dataset}))["m"], given_dataset)


@pytest.mark.parametrize("dataset", [xr.Dataset({"a/b": 1.0}), xr.Dataset({"a": ("b/c", [1.0])}), xr.Dataset({3: 1.0})])
def test_names_that_netcdf_does_not_hold_are_refused(dataset: xr.Dataset) -> None:
    with pytest.raises(StoreError, match=r"m has a variable or dimension of the name .*; give it a text without '/'"):
        canonical(dataset, "m")


def test_equal_results_give_equal_bytes_at_any_time() -> None:
    datasets = {name: canonical(dataset, name) for name, dataset in shard(0, 3).items()}
    first = encode(datasets)
    time.sleep(1.1)  # HDF5's own clock ticks in seconds
    assert encode(datasets) == first


def test_file_is_readable_by_any_hdf5_reader(tmp_path: Path) -> None:
    path = tmp_path / "shard.nc"
    write_shard(path, {name: canonical(dataset, name) for name, dataset in shard(0, 3).items()})
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["skip/effect_all"][:], shard(0, 3)["skip"]["effect_all"].values)
        assert "_FillValue" not in file["skip/effect_all"].attrs
        assert file["skip/effect_all"].attrs["units"] == "1"


@pytest.mark.parametrize("damage", ["one bit", "cut short", "emptied"])
def test_damaged_file_is_refused_with_both_hashes_and_the_way_out(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "shard-00002.nc"
    sha256 = write_shard(path, {"m": canonical(xr.Dataset({"x": ("i", np.arange(100.0))}), "m")})
    content = bytearray(path.read_bytes())
    if damage == "one bit":
        content[len(content) // 2] ^= 1
    path.write_bytes({"one bit": content, "cut short": content[:-7], "emptied": b""}[damage])
    with pytest.raises(StoreError) as caught:
        read_shard(path.parent, path.name, sha256, {})
    message = str(caught.value)
    assert str(path) in message
    assert sha256 in message
    assert hashlib.sha256(path.read_bytes()).hexdigest() in message
    assert "delete this one file and run the command that wrote the run again, which computes it" in message


def test_results_of_their_own_file_come_back_and_know_when_they_were_altered(tmp_path: Path) -> None:
    given = {"": xr.Dataset({"depth": ("member", np.array([1.5, 2.5]), {"units": "blocks"})}, {"member": ["a", "b"]})}
    given[""].attrs["note"] = "one seed"
    path = tmp_path / "results.nc"
    path.write_bytes(encode_results(given))
    assert bits(read_results(path)[""]) == bits(canonical(given[""], "results"))
    with xr.open_dataset(path, engine="h5netcdf") as plainly:
        assert plainly["depth"].values.tolist() == [1.5, 2.5]
    with h5py.File(path, "r+") as file:
        file["depth"][1] = 2.0
    with pytest.raises(StoreError, match=r"does not hold the results that were written: their SHA-256 is .* altered"):
        read_results(path)
    with h5py.File(path, "r+") as file:
        file["depth"][1] = 2.5
        file["depth"].attrs["units"] = "layers"
    with pytest.raises(StoreError, match="altered"):
        read_results(path)


def test_no_datasets_is_a_valid_file(tmp_path: Path) -> None:
    sha256 = write_shard(tmp_path / "derived.nc", {})
    assert read_shard(tmp_path, "derived.nc", sha256, {}) == {}
