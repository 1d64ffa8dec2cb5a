"""Is a table that is read from our checkpoint the same table as the one read from its commits?"""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.log_builder import LogBuilder, add, domain, metadata, protocol, remove, vector

from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint

NOW_MS = 10_000
TEXT = st.text(max_size=6).filter(lambda text: text.isprintable() or text == "")
MAPS = st.none() | st.dictionaries(TEXT, TEXT, max_size=2)
COLUMNS = {
    "id": "long",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "n": "decimal(8,3)",
    "p": "string",
    "q": "integer",
}
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT
BOUNDS = st.dictionaries(st.sampled_from([*COLUMNS, "unknown"]), SCALARS | st.lists(SCALARS, max_size=1), max_size=4)
STATS = (
    st.none()
    | st.sampled_from(["", "{}", "broken", '{"numRecords":1}\n'])
    | st.builds(
        lambda count, low, high, tight: json.dumps(
            {"numRecords": count, "minValues": low, "maxValues": high, "nullCount": {"id": 1}, "tightBounds": tight}
        ),
        st.integers(0, 2**63 - 1) | SCALARS,
        BOUNDS,
        BOUNDS | st.just(7),
        st.booleans() | st.none(),
    )
)
OPTIONAL_LONG = st.none() | st.integers(-(2**63), 2**63 - 1)


@st.composite
def _without_none(draw, **fields):
    drawn = {name: draw(strategy) for name, strategy in fields.items()}
    return {name: value for name, value in drawn.items() if value is not None}


VECTORS = st.none() | st.builds(
    lambda offset, cardinality: vector(offset=offset, cardinality=cardinality),
    st.none() | st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)
PARTITIONS = st.fixed_dictionaries({"p": st.none() | TEXT, "q": st.none() | st.sampled_from(["", "7", "-1", "x"])})
OPTIONS = _without_none(
    stats=STATS,
    tags=MAPS,
    baseRowId=OPTIONAL_LONG,
    defaultRowCommitVersion=OPTIONAL_LONG,
    clusteringProvider=st.none() | TEXT,
)


@st.composite
def tables(draw):
    """The actions of one commit: files, tombstones of every kind, transactions, domains."""
    actions = []
    for number in range(draw(st.integers(0, 6))):
        options = draw(OPTIONS)
        size = draw(st.integers(0, 2**62))
        actions.append(add(f"a{number}", dv=draw(VECTORS), size=size, partition=draw(PARTITIONS), **options))
    for number in range(draw(st.integers(0, 4))):
        extra = draw(
            _without_none(
                partitionValues=st.none() | PARTITIONS,
                size=st.none() | st.integers(0, 99),
                extendedFileMetadata=st.none() | st.booleans(),
                baseRowId=OPTIONAL_LONG,
            )
        )
        actions.append(remove(f"r{number}", dv=draw(VECTORS), at=NOW_MS, **extra))
    for app in draw(st.lists(TEXT, unique=True, max_size=3)):
        last_updated = draw(st.none() | st.integers(0, 99))
        body = {"appId": app, "version": draw(st.integers(0, 99))}
        actions.append({"txn": body if last_updated is None else {**body, "lastUpdated": last_updated}})
    actions += [domain(name, draw(TEXT)) for name in draw(st.lists(TEXT, unique=True, max_size=3))]
    return actions


def state_of(snapshot):
    """Everything about a snapshot that a checkpoint must keep."""
    tombstones = snapshot.tombstones().drop_columns(["data_change"])
    return {
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "files": sorted(map(repr, snapshot.files.to_pylist())),
        "tombstones": sorted(map(repr, tombstones.to_pylist())),
        "transactions": dict(snapshot.transactions),
        "domains": dict(snapshot.domain_metadata),
    }


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.sampled_from(["classic", "v2"]), st.booleans(), st.integers(1, 4))
def test_checkpoint_loads_as_the_snapshot_it_was_written_from(actions, policy, as_struct, actions_per_sidecar):
    configuration = {
        "delta.checkpointPolicy": policy,
        "delta.checkpoint.writeStatsAsStruct": str(as_struct).lower(),
    }
    log = LogBuilder()
    head = [protocol(features=["deletionVectors", "v2Checkpoint"])]
    head.append(metadata(COLUMNS, partitions=["p", "q"], configuration=configuration, name="a table"))
    log.commit(0, [*head, *actions])
    before = load_snapshot(log.store)
    result = write_checkpoint(before, now_ms=NOW_MS, actions_per_sidecar=actions_per_sidecar)
    log.delete(f"{0:020d}.json")
    after = load_snapshot(log.store)
    assert after.segment.checkpoint is not None
    assert state_of(after) == state_of(before)
    assert result.num_add_files == before.num_files
    # A second checkpoint, written from the first, says the same once it stands alone.
    log.commit(1, [{"commitInfo": {}}])
    second = write_checkpoint(load_snapshot(log.store), now_ms=NOW_MS)
    for path in log.store.objects.keys() - {*second.files, "_delta_log/_last_checkpoint"}:
        log.store.delete(path)
    assert state_of(load_snapshot(log.store)) == state_of(before)
