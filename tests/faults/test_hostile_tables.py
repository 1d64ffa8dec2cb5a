"""Is a table that attacks its reader refused in bounded time and memory?

Each attack runs in a process of its own, which says how it ended and how much memory it took at its peak. No Spark: all
of this is refused before a session would be asked for anything. `tests/spark/test_bad_input.py` walks the whole way.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.deletion_vector_files import MAGIC, z85
from tests.support.table_builder import TableBuilder

ROOT = Path(__file__).parents[2]
SECONDS = 120
# The imports alone take a fifth of this; every attack below claims or repeats itself into many gigabytes.
PEAK_BYTES = 1 << 30
# The peak is the kernel's mark for the process's own memory: `ru_maxrss` begins at the size of the process that started it.
READER = """
import re, sys
from pathlib import Path
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot
from ebbtide.scan.files import resolve_files
from ebbtide.storage import open_store
try:
    snapshot = load_snapshot(open_store(sys.argv[1]))
    resolve_files(snapshot, snapshot.files)
    name = "nothing"
except DeltaError as error:
    name = type(error).__name__
print(name, int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


def read_in_a_process(path):
    """The name of the error, and the peak of the process's memory in bytes."""
    answer = subprocess.run(
        [sys.executable, "-c", READER, str(path)],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    name, peak = answer.stdout.split()
    return name, int(peak)


@pytest.fixture
def builder(tmp_path):
    return TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors().file([{"id": 1}]).commit()


def write_commit(builder, *pieces):
    with (builder.log / f"{1:020d}.json").open("w") as commit:
        commit.writelines(pieces)


def long_line(builder):
    write_commit(builder, '{"commitInfo": {"engineInfo": "', *["x" * 1_000_000] * 100, '"}}\n')


def long_line_without_an_end(builder):
    write_commit(builder, '{"add": {"path": "', *["x" * 1_000_000] * 100)


def nested_arrays(builder):
    write_commit(builder, '{"add": ', *["[" * 1_000_000] * 20, "\n")


def nested_objects(builder):
    write_commit(builder, '{"a":' * 5_000_000, "1", "}" * 5_000_000, "\n")


def many_buckets(builder):
    data = struct.pack("<iQ", MAGIC, 1 << 60)
    vector = {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": 1}
    file = builder.files[0]
    builder.remove(file).raw({"add": file.add | {"deletionVector": vector}}).commit()


def absurd_cardinality(builder):
    """A run container of all 65,536 rows is a few bytes; a thousand buckets of many of them would be terabytes of rows."""
    runs = struct.pack("<I", 12347 | (0xFFFF << 16)) + b"\xff" * 8192
    runs += b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(65536))
    runs += struct.pack("<I", 0) * 65536
    runs += struct.pack("<HHH", 1, 0, 0xFFFF) * 65536
    data = struct.pack("<iQ", MAGIC, 4) + b"".join(struct.pack("<I", key) + runs for key in range(4))
    vector = {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": 1 << 34}
    file = builder.files[0]
    builder.remove(file).raw({"add": file.add | {"deletionVector": vector}}).commit()


def deep_schema(builder):
    nested = '{"type":"array","containsNull":true,"elementType":' * 100_000 + '"long"' + "}" * 100_000
    schema = '{"type":"struct","fields":[{"name":"id","type":' + nested + ',"nullable":true,"metadata":{}}]}'
    builder.raw({"metaData": builder._metadata()["metaData"] | {"schemaString": schema}}).commit()


def huge_hint(builder):
    """A hint is only a hint: however broken, the table is read without it."""
    (builder.log / "_last_checkpoint").write_text(json.dumps({"version": 10**18, "size": 10**18, "parts": 10**9}))


def write_bomb(path, stats, *, groups=1, **options):
    """A checkpoint or sidecar with `groups` times these statistics, each of a file of its own."""
    struct = pa.struct(
        {
            "path": pa.string(),
            "partitionValues": pa.map_(pa.string(), pa.string()),
            "size": pa.int64(),
            "stats": stats.type,
        }
    )
    with pq.ParquetWriter(path, pa.schema({"add": struct}), **options) as writer:
        for group in range(groups):
            count = len(stats)
            children = [
                pa.array([f"{group}-{number}.parquet" for number in range(count)]),
                pa.array([[]] * count, struct.field("partitionValues").type),
                pa.array([1] * count, pa.int64()),
                stats,
            ]  # fmt: skip
            adds = pa.StructArray.from_arrays(children, fields=list(struct))
            writer.write_table(pa.table({"add": adds}))
    assert path.stat().st_size < 1_000_000


def plant_checkpoint(builder, write):
    """Makes `write(path)` the only way to version 0: its commit is gone."""
    builder.checkpoint(kind="v2-json", sidecars=1)
    [sidecar] = (builder.log / "_sidecars").iterdir()
    write(sidecar)
    [checkpoint] = builder.log.glob("*.checkpoint.*.json")
    lines = [json.loads(line) for line in checkpoint.read_text().splitlines()]
    for line in lines:
        if "sidecar" in line:
            line["sidecar"]["sizeInBytes"] = sidecar.stat().st_size
    checkpoint.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (builder.log / f"{0:020d}.json").unlink()


def compressed_sidecar(builder):
    plant_checkpoint(
        builder,
        lambda path: write_bomb(
            path, pa.array(["x" * 50_000_000]), groups=32, compression="zstd", use_dictionary=False
        ),
    )


def repeated_sidecar_values(builder):
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 1_000_000]))
    plant_checkpoint(builder, lambda path: write_bomb(path, values, compression="zstd"))


def many_small_values_in_one_line(builder):
    write_commit(builder, '{"commitInfo": {"a": [', *["[]," * 1_000_000] * 20, "[]]}}\n")


@pytest.mark.parametrize(
    ("attack", "errors"),
    [
        (long_line, {"CorruptTableError"}),
        (long_line_without_an_end, {"CorruptTableError"}),
        (nested_arrays, {"CorruptTableError"}),
        (nested_objects, {"CorruptTableError"}),
        (many_buckets, {"CorruptDeletionVectorError"}),
        (absurd_cardinality, {"CorruptDeletionVectorError"}),
        (deep_schema, {"CorruptTableError"}),
        (huge_hint, {"nothing"}),
        (compressed_sidecar, {"CorruptTableError"}),
        (repeated_sidecar_values, {"CorruptTableError"}),
        (many_small_values_in_one_line, {"CorruptTableError"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_attack_ends_with_an_error_of_ours_and_little_memory(builder, attack, errors):
    attack(builder)
    name, peak = read_in_a_process(builder.path)
    assert name in errors
    assert peak < PEAK_BYTES
