"""Which files does an OPTIMIZE put together?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.commands.optimize.packing import PackingRules, choose_groups, pack
from ebbtide.commands.optimize.request import OptimizeSettings
from ebbtide.errors import RequestError
from ebbtide.log import LIVE_FILES_SCHEMA
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor

RULES = PackingRules(target_bytes=100, min_bytes=100, max_deleted_share=0.05)


def add(path, size, *, part=None, rows=100, marked=0, time=0, stats=True):
    vector = DeletionVectorDescriptor.inline_in_log(b"x" * 40, marked) if marked else None
    values = {} if part is None else {"p": part}
    text = json.dumps({"numRecords": rows}) if stats else None
    return AddFile(path, values, size, time, True, stats=text, deletion_vector=vector)


def table(*adds):
    rows = []
    for item in adds:
        vector = item.deletion_vector
        rows.append(
            {
                "path": item.path,
                "partition_values": list(item.partition_values.items()),
                "size": item.size,
                "modification_time": item.modification_time,
                "stats": item.stats,
                "deletion_vector": None
                if vector is None
                else {
                    "storage_type": vector.storage_type,
                    "path_or_inline_dv": vector.path_or_inline_dv,
                    "offset": vector.offset,
                    "size_in_bytes": vector.size_in_bytes,
                    "cardinality": vector.cardinality,
                },
            }
        )
    return pa.Table.from_pylist(rows, schema=LIVE_FILES_SCHEMA)


def paths(groups):
    return [[item.path for item in group.files] for group in groups]


def test_small_files_of_a_partition_are_put_together():
    files = table(add("a", 10, part="1"), add("b", 20, part="2"), add("c", 30, part="1"), add("d", 40, part="2"))
    assert sorted(paths(choose_groups(files, RULES))) == [["a", "c"], ["b", "d"]]


def test_file_of_the_target_size_is_left_alone():
    assert paths(choose_groups(table(add("a", 100), add("b", 99), add("c", 1)), RULES)) == [["b", "c"]]


def test_lone_small_file_is_left_alone():
    assert choose_groups(table(add("a", 10), add("b", 10, part="x")), RULES) == []


@pytest.mark.parametrize(("marked", "is_rewritten"), [(5, False), (6, True), (100, True)])
def test_lone_file_is_rewritten_when_more_than_its_share_is_marked(marked, is_rewritten):
    groups = choose_groups(table(add("a", 500, marked=marked)), RULES)
    assert paths(groups) == ([["a"]] if is_rewritten else [])


def test_file_with_marks_but_without_a_row_count_is_rewritten():
    assert paths(choose_groups(table(add("a", 500, marked=1, stats=False)), RULES)) == [["a"]]


def test_files_of_a_group_are_in_the_order_of_their_age():
    files = [add("new", 1, time=3), add("old", 30, time=1), add("middle", 2, time=2)]
    assert paths(pack(files, 100)) == [["old", "middle", "new"]]


def test_partition_values_are_compared_whatever_their_order():
    one = AddFile("a", {"p": "1", "q": None}, 1, 0, True)
    other = AddFile("b", {"q": None, "p": "1"}, 1, 0, True)
    assert paths(pack([one, other], 10)) == [["a", "b"]]


@given(
    st.lists(st.tuples(st.integers(0, 150), st.sampled_from([None, "x", "y"])), max_size=40),
    st.integers(1, 120),
)
def test_every_file_is_in_one_group_and_no_group_of_several_exceeds_the_target(sizes, target):
    files = [add(f"f{number}", size, part=part) for number, (size, part) in enumerate(sizes)]
    groups = pack(files, target)
    assert sorted(path for group in paths(groups) for path in group) == sorted(item.path for item in files)
    for group in groups:
        assert len({tuple(item.partition_values.items()) for item in group.files}) == 1
        assert len(group.files) == 1 or group.num_bytes <= target


@pytest.mark.parametrize("wrong", [{"target_bytes": 0}, {"min_bytes": -1}, {"max_deleted_share": 1.5}, {"threads": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RequestError):
        OptimizeSettings(**wrong)
