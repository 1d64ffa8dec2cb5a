"""Does FSCK survive every damaged log, vector and hostile table that the other tests of this folder make?

Each gives findings or an error of ours, never another exception, in bounded time and memory. What can be repaired is repaired, and
then nothing repairable is left.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.fsck import damage, fsck
from tests.support.table_builder import TableBuilder

from ebbtide.errors import DeltaError, InternalError
from ebbtide.log import load_snapshot
from ebbtide.protocol.statistics import num_records
from ebbtide.storage import open_store

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def neighbour(name):
    """Another test module of this folder; pytest imports each by its path."""
    spec = importlib.util.spec_from_file_location(f"fsck_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOGS = neighbour("test_log_mutations")
VECTORS = neighbour("test_deletion_vector_mutations")
HOSTILE = neighbour("test_hostile_tables")
ROUNDS_PER_FILE = 8


def outcome(store, **options):
    """The kinds that were found, or None for a typed refusal."""
    try:
        return [found.kind for found in fsck(store, **options).findings]
    except InternalError:
        raise
    except DeltaError:
        return None


@pytest.mark.parametrize("change", ["flipped", "overwritten", "cut", "missing"])
@pytest.mark.parametrize("kind", LOGS.KINDS)
def test_damaged_log_gives_findings_or_an_error_of_ours(kind, change):
    log = LOGS.write_log(kind, keep_commits=kind in {"classic", "v2-json-sidecars"})
    randomness = random.Random(f"{kind} {change}")
    for path, data in dict(log.store.objects).items():
        for _ in range(1 if change == "missing" else ROUNDS_PER_FILE):
            if change == "missing":
                log.store.delete(path)
            elif change == "cut":
                log.store.objects[path] = data[: randomness.randrange(len(data))]
            else:
                log.store.objects[path] = getattr(LOGS, change)(data, randomness)
            # The data files of these logs do not exist, so that there is always something to find.
            assert outcome(log.store) != []
        log.store.objects[path] = data


@pytest.mark.parametrize("kind", LOGS.KINDS)
def test_repair_of_a_damaged_log_leaves_nothing_repairable_or_changes_nothing(kind):
    randomness = random.Random(kind)
    for _ in range(6):
        log = LOGS.write_log(kind, keep_commits=True)
        path = randomness.choice(sorted(log.store.objects))
        log.store.objects[path] = LOGS.overwritten(log.store.objects[path], randomness)
        before = dict(log.store.objects)
        try:
            fsck(log.store, repair=True)
        except InternalError:
            raise
        except DeltaError:
            assert log.store.objects == before
            continue
        assert {path: data for path, data in log.store.objects.items() if path in before and "_last_checkpoint" not in path} == {
            path: data for path, data in before.items() if "_last_checkpoint" not in path
        }  # fmt: skip
        assert not [found.kind for found in fsck(log.store).findings if found.is_repairable]


@pytest.fixture
def builder(tmp_path):
    made = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors(share_a_file=True)
    for name in "abc":
        made.file([{"id": number} for number in range(300)], deleted=range(0, 300, 7), name=name)
    return made.commit()


def test_damaged_vector_file_is_found_unless_it_still_says_the_same(builder):
    (path,) = builder.path.glob("deletion_vector_*.bin")
    content = path.read_bytes()
    randomness = random.Random(5)
    found = 0
    for _ in range(60):
        wounded = VECTORS.damaged(content, randomness)
        path.write_bytes(wounded)
        kinds = damage(builder.path)
        assert set(kinds) <= {"corrupt-vector", "vector-cardinality", "vector-row-out-of-range"}
        # Without a finding every vector is still where it was, bit for bit.
        assert kinds or wounded[: len(content)] == content
        found += bool(kinds)
    assert found > 40


def test_damaged_data_file_is_found_where_its_end_is_hurt(builder):
    path = builder.path / "a"
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    randomness = random.Random(6)
    for _ in range(60):
        wounded = bytearray(content)
        for _ in range(5):
            wounded[len(content) - 1 - randomness.randrange(footer)] = randomness.randrange(256)
        path.write_bytes(wounded)
        assert set(damage(builder.path)) <= {
            "truncated-data-file", "odd-footer", "narrow-statistics", "wrong-num-records", "vector-row-out-of-range",
        }  # fmt: skip
    path.write_bytes(content[: len(content) // 2])
    assert damage(builder.path) == ["truncated-data-file"]


CHECKER = """
import re, sys
from pathlib import Path
from ebbtide.commands.fsck.command import FsckCommand
from ebbtide.commands.fsck.request import FsckRequest
from ebbtide.errors import DeltaError
from ebbtide.storage import open_store
try:
    result = FsckCommand(FsckRequest(open_store(sys.argv[1]))).run()
    name = ",".join(sorted({found.kind for found in result.findings})) or "nothing"
except DeltaError as error:
    name = type(error).__name__
print(name, int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (HOSTILE.long_line, "corrupt-commit"),
        (HOSTILE.long_line_without_an_end, "corrupt-commit"),
        (HOSTILE.nested_arrays, "corrupt-commit"),
        (HOSTILE.nested_objects, "corrupt-commit"),
        (HOSTILE.many_buckets, "corrupt-vector"),
        (HOSTILE.absurd_cardinality, "corrupt-vector"),
        (HOSTILE.deep_schema, "unreadable-table"),
        (HOSTILE.huge_hint, "bad-last-checkpoint"),
        (HOSTILE.compressed_sidecar, "corrupt-checkpoint,unreadable-table"),
        (HOSTILE.repeated_sidecar_values, "corrupt-checkpoint,unreadable-table"),
        (HOSTILE.many_small_values_in_one_line, "corrupt-commit"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_hostile_table_is_found_out_with_little_memory(tmp_path, attack, expected):
    made = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors().file([{"id": 1}]).commit()
    attack(made)
    answer = subprocess.run(
        [sys.executable, "-c", CHECKER, str(made.path)],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=HOSTILE.SECONDS,
    )  # fmt: skip
    name, peak = answer.stdout.split()
    assert name == expected
    assert int(peak) < HOSTILE.PEAK_BYTES


class Crash(BaseException):
    """The process is gone: nothing may catch it."""


class CrashingStore:
    """A store whose process dies at one call, before or after the call has had its effect."""

    def __init__(self, store, at, *, after):
        self._store, self._at, self._after, self.calls = store, at, after, 0

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            self.calls += 1
            if self.calls != self._at:
                return found(*args, **kwargs)
            if self._after:
                with contextlib.suppress(DeltaError):
                    found(*args, **kwargs)
            raise Crash

        return call


def damaged_table(path):
    """A lost file, wrong statistics, and a hint that leads nowhere: every remedy at once."""
    made = TableBuilder(path, pa.schema({"id": pa.int64()})).deletion_vectors()
    for name in "abc":
        made.file([{"id": number} for number in range(4)], deleted=[1] if name == "c" else [], name=name)
    made.commit()
    made.raw({"add": made.files[1].add | {"stats": '{"numRecords":9}'}}).commit()
    (path / "a").unlink()
    (made.log / "_last_checkpoint").write_text("{")
    return made


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
def test_crash_at_any_call_to_storage_leaves_the_table_repaired_or_as_it_was(tmp_path, after):
    at = 0
    seen = set()
    while True:
        at += 1
        made = damaged_table(tmp_path / str(at))
        store = CrashingStore(open_store(str(made.path)), at, after=after)
        try:
            fsck(store, repair=True)
        except Crash:
            pass
        else:
            break
        snapshot = load_snapshot(open_store(str(made.path)))
        live = {add.path: num_records(add.stats) for add in snapshot.add_files()}
        assert live == ({"a": 4, "b": 9, "c": 4} if snapshot.version == 1 else {"b": 4, "c": 4})
        seen.add(snapshot.version)
        assert fsck(made.path, repair=True).is_healthy
    assert at > 15
    assert seen == {1, 2}
