"""Do random merges leave what the same merge on a list of rows leaves, and count it the same way?

The model knows nothing of files: for each row of the target it looks for partners, takes the first clause whose
condition holds, and inserts what is left of the source.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.support.invariants import look
from tests.support.merge_checks import assert_merged
from tests.support.peer_agreement import assert_peers_agree
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.request import DeleteClause, InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.merge.strategy import MergeThresholds
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.scan import dataframe
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "p": pa.string()})
ON_SPARK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))

KEYS = st.one_of(st.none(), st.integers(0, 6))
VALUES = st.one_of(st.none(), st.integers(-3, 3))
ROWS = st.tuples(KEYS, VALUES, st.sampled_from(["a", "b"]))
# What the source is taken for decides how Spark finds partners in it.
SIZES = st.fixed_dictionaries({"is_small": st.booleans(), "has_many_keys": st.booleans()})


def less(one, other):
    return None if one is None or other is None else one < other


def plus(one, other):
    return None if one is None or other is None else one + other


# What a condition says: SQL, and the same of (target row, source row), where either may be missing.
BOTH = {
    None: lambda t, s: True,
    "t.v < s.v": lambda t, s: less(t[1], s[1]),
    "t.v > 0": lambda t, s: less(0, t[1]),
    "s.v IS NULL": lambda t, s: s[1] is None,
}
OF_SOURCE = {None: lambda s: True, "s.v > 0": lambda s: less(0, s[1]), "v IS NULL": lambda s: s[1] is None}
OF_TARGET = {None: lambda t: True, "t.v > 0": lambda t: less(0, t[1]), "k < 4": lambda t: less(t[0], 4)}
ON = {
    "t.k = s.k": lambda t, s: t[0] is not None and t[0] == s[0],
    "t.k <=> s.k": lambda t, s: t[0] == s[0],
    "t.k = s.k AND t.p = 'a'": lambda t, s: t[0] is not None and t[0] == s[0] and t[2] == "a",
}
MATCHED = {
    "update": (
        lambda c: UpdateClause((("v", "t.v + s.v"), ("p", "s.p")), c),
        lambda t, s: (t[0], plus(t[1], s[1]), s[2]),
    ),
    "star": (lambda c: UpdateClause(None, c), lambda t, s: s),
    "delete": (DeleteClause, lambda t, s: None),
}
BY_SOURCE = {
    "update": (lambda c: UpdateClause((("v", "v + 10"),), c), lambda t: (t[0], plus(t[1], 10), t[2])),
    "delete": (DeleteClause, lambda t: None),
}
INSERT = {
    "star": (lambda c: InsertClause(None, c), lambda s: s),
    "some": (lambda c: InsertClause((("k", "s.k"), ("p", "'a'")), c), lambda s: (s[0], None, "a")),
}


@st.composite
def clauses(draw, kinds, conditions):
    """At most three clauses, of which only the last may be without a condition."""
    chosen = draw(st.lists(st.tuples(st.sampled_from(sorted(kinds)), st.sampled_from(list(conditions))), max_size=3))
    return [pair for place, pair in enumerate(chosen) if pair[1] is not None or place == len(chosen) - 1]


@st.composite
def merges(draw):
    return {
        "on": draw(st.sampled_from(list(ON))),
        "matched": draw(clauses(MATCHED, BOTH)),
        "not_matched": draw(clauses(INSERT, OF_SOURCE)),
        "by_source": draw(clauses(BY_SOURCE, OF_TARGET)),
        "source": draw(st.lists(ROWS, max_size=6)),
        **draw(SIZES),
    }


def first(pairs, kinds, conditions, *rows):
    """(kind, new row) of the first clause that holds; None when none does."""
    for kind, condition in pairs:
        if conditions[condition](*rows) is True:
            return kind, kinds[kind][1](*rows)
    return None


def modelled(target, merge):
    """(rows afterwards, counts by kind), or None where a row has several partners."""
    on, source = ON[merge["on"]], merge["source"]
    insert_only = not (merge["matched"] or merge["by_source"])
    lenient = merge["matched"] == [("delete", None)]
    # Rows to which nothing can happen, by what the clauses say of the target alone, are not looked at.
    by_target = bool(merge["matched"]) and not (merge["not_matched"] or merge["by_source"])
    by_target = by_target and all(condition == "t.v > 0" for _, condition in merge["matched"])
    left, counts = [], Counter()
    for row in target:
        partners = [other for other in source if on(row, other)]
        is_regarded = not by_target or BOTH["t.v > 0"](row, None) is True
        if len(partners) > 1 and is_regarded and not insert_only and not lenient:
            return None
        if partners:
            said = first(merge["matched"], MATCHED, BOTH, row, partners[0])
        else:
            said = first(merge["by_source"], BY_SOURCE, OF_TARGET, row)
        kind = None if said is None else "deleted" if said[0] == "delete" else "updated"
        counts[kind, bool(partners)] += 1
        left += [row] if said is None else [said[1]] if said[1] is not None else []
    for other in source:
        said = None if any(on(row, other) for row in target) else first(merge["not_matched"], INSERT, OF_SOURCE, other)
        if said is not None:
            counts["inserted", False] += 1
            left.append(said[1])
    return left, counts


def request(spark, path, merge, vectors):
    frame = spark.createDataFrame(merge["source"], "k long, v long, p string").alias("s")
    return MergeRequest(
        open_store(str(path)),
        frame,
        merge["on"],
        tuple(MATCHED[kind][0](condition) for kind, condition in merge["matched"]),
        tuple(INSERT[kind][0](condition) for kind, condition in merge["not_matched"]),
        tuple(BY_SOURCE[kind][0](condition) for kind, condition in merge["by_source"]),
        target_alias="t",
        options=WriteOptions(deletion_vectors=vectors),
    )


def run(spark, files, steps, *, feed, partitioned):
    with tempfile.TemporaryDirectory() as directory:
        builder = TableBuilder(Path(directory, "t"), SCHEMA).deletion_vectors()
        if feed:
            builder.change_data_feed()
        if partitioned:
            builder.partitioned_by("p")
        for group in files:
            for part in ("a", "b") if partitioned else (None,):
                rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in group if part in (None, row[2])]
                if rows:
                    builder.file(rows)
        builder.commit()
        target = [row for group in files for row in group]
        for merge, vectors in steps:
            if merge["matched"] or merge["not_matched"] or merge["by_source"]:
                note(f"{merge} (vectors {vectors})")
                target = step(spark, builder.path, target, merge, vectors)
        assert_peers_agree(Path(directory))


def step(spark, path, target, merge, vectors):
    expected = modelled(target, merge)
    # What stands in for size decides how the source is joined, and how marks and partners reach Spark.
    thresholds = MergeThresholds(
        broadcast_bytes=1 << 60 if merge["is_small"] else -1,
        looked_up_keys=0 if merge["has_many_keys"] else 1 << 60,
        listed_partners=64 if merge["is_small"] else 0,
    )
    command = MergeCommand(spark, request(spark, path, merge, vectors), thresholds=thresholds)
    before = look(spark, path)
    with mock.patch.object(dataframe, "has_few_marks", lambda _: merge["is_small"]):
        if expected is None:
            with pytest.raises(RequestError, match="more than one row of the source"):
                command.run()
            return target
        result = command.run()
    assert_merged(spark, path, before, result)
    rows, counts = expected
    assert Counter(tuple(row) for row in ebbtide.read(spark, str(path)).collect()) == Counter(rows)
    metrics = result.operation_metrics
    counted = {
        ("updated", True): metrics["numTargetRowsMatchedUpdated"],
        ("updated", False): metrics["numTargetRowsNotMatchedBySourceUpdated"],
        ("deleted", True): metrics["numTargetRowsMatchedDeleted"],
        ("deleted", False): metrics["numTargetRowsNotMatchedBySourceDeleted"],
        ("inserted", False): metrics["numTargetRowsInserted"],
    }
    assert counted == {key: counts[key] for key in counted}
    assert metrics["numSourceRows"] == len(merge["source"])
    return rows


FILES = st.lists(st.lists(ROWS, min_size=1, max_size=5), max_size=3)


def steps_of(merge):
    """One or two merges, with deletion vectors or without."""
    return st.lists(st.tuples(merge, st.sampled_from(["on", "off"])), min_size=1, max_size=2)


STEPS = steps_of(merges())


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(files=FILES, steps=STEPS)
def test_merges_leave_what_a_list_would_be(spark, files, steps):
    run(spark, files, steps, feed=False, partitioned=False)


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(files=FILES, steps=STEPS)
def test_merges_of_partitioned_tables_tell_their_changes(spark, files, steps):
    run(spark, files, steps, feed=True, partitioned=True)


@st.composite
def whole_rows(draw):
    """Matched rows become their partners: nothing of the old ones is read, unless a partner has several of them."""
    return {
        "on": draw(st.sampled_from(list(ON))),
        "matched": [("star", None)],
        "not_matched": draw(st.sampled_from([[], [("star", None)], [("some", None)], [("star", "s.v > 0")]])),
        "by_source": draw(st.sampled_from([[], [("update", "t.v > 0")]])),
        "source": draw(st.lists(ROWS, max_size=6, unique_by=lambda row: row[0])),
        **draw(SIZES),
    }


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(files=FILES, steps=steps_of(whole_rows()), partitioned=st.booleans())
def test_merges_that_take_the_rows_of_the_source_leave_what_a_list_would_be(spark, files, steps, partitioned):
    run(spark, files, steps, feed=False, partitioned=partitioned)


@st.composite
def by_key_alone(draw):
    """ON compares whole numbers and no clause looks further: partners are looked up, where there are enough of them."""
    return {
        "on": "t.k = s.k",
        "matched": [(draw(st.sampled_from(sorted(MATCHED))), None)],
        "not_matched": draw(clauses(INSERT, OF_SOURCE)),
        "by_source": [],
        "source": draw(st.lists(ROWS, max_size=6)),
        "is_small": draw(st.booleans()),
        "has_many_keys": True,
    }


@pytest.mark.one_kind("any sequence of commands runs on both kinds; this adds values")
@ON_SPARK
@given(files=FILES, steps=steps_of(by_key_alone()), feed=st.booleans())
def test_merges_that_look_keys_up_leave_what_a_list_would_be(spark, files, steps, feed):
    run(spark, files, steps, feed=feed, partitioned=False)
