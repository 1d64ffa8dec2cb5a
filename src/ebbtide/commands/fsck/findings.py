"""What can be wrong with a table, what does it mean, and what would a repair do?

A `Finding` is a value for people and programs. Its `kind` is stable; `meaning` is one plain sentence, `repair` another:
what the repair would do, or what the owner can do where there is none. The `remedy` is what `commands.fsck.repair`
works from. Each function here is one kind of damage. Findings never quote the content of a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from ebbtide.errors import DeltaError
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.statistics import num_records

__all__ = [
    "Finding",
    "NewCheckpoint",
    "Remedy",
    "RemoveFromLog",
    "RestateStatistics",
    "Severity",
]

# error: rows are lost, wrong or cannot be read now. warning: they may be later, or something else than rows is lost.
# note: worth knowing, and nothing is wrong.
Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class RemoveFromLog:
    """The file leaves the table, with its rows; `num_rows` is None when the log does not say how many."""

    add: AddFile
    num_rows: int | None

    @classmethod
    def of(cls, add: AddFile) -> RemoveFromLog:
        records = num_records(add.stats)
        return cls(add, None if records is None else max(0, records - add.num_marked_rows))


@dataclass(frozen=True, slots=True)
class RestateStatistics:
    """The file is added again with these statistics."""

    add: AddFile
    stats: str


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A new version gets a checkpoint, from which readers start instead."""


Remedy: TypeAlias = RemoveFromLog | RestateStatistics | NewCheckpoint


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `path` is below the table's root and decoded, or an absolute URL. `version` is that of the log file, or the
    version of the table that was checked.
    """

    kind: str
    severity: Severity
    path: str
    version: int | None
    meaning: str
    repair: str
    remedy: Remedy | None = field(default=None, repr=False, compare=False)

    @property
    def is_repairable(self) -> bool:
        return self.remedy is not None

    @property
    def num_lost_rows(self) -> int | None:
        """Rows that the repair would take from the table; None when that is not known."""
        return self.remedy.num_rows if isinstance(self.remedy, RemoveFromLog) else 0


_COPY: Final = "Bring the file back from a copy"
_OLDER: Final = "RESTORE the table to a version that does not need it"


# --- data files -------------------------------------------------------------------------------------------------------


def missing_data_file(path: str, version: int, add: AddFile) -> Finding:
    remedy = RemoveFromLog.of(add)
    return Finding(
        "missing-data-file", "error", path, version,
        f"The log names this data file, but it is not there: {_rows(remedy)} cannot be read.",
        f"Removes the file from the log, so that the table can be read without {_those(remedy)}. {_COPY} instead if "
        "there is one.",
        remedy,
    )  # fmt: skip


def truncated_data_file(path: str, version: int, add: AddFile, problem: str | DeltaError) -> Finding:
    remedy = RemoveFromLog.of(add)
    return Finding(
        "truncated-data-file", "error", path, version,
        f"This data file is not a whole Parquet file: {_sentence(problem)} {_rows(remedy).capitalize()} cannot be "
        "read.",
        f"Removes the file from the log, so that the table can be read without {_those(remedy)}. The object itself "
        f"stays where it is until VACUUM. {_COPY} instead if there is one.",
        remedy,
    )  # fmt: skip


def odd_footer(path: str, version: int, problem: str) -> Finding:
    return Finding(
        "odd-footer", "error", path, version,
        f"The footer of this data file contradicts itself: {_sentence(problem)} Its rows may be read, or not.",
        f"Not repaired, because its rows may still be there. {_COPY}, or read the table and see.",
    )  # fmt: skip


def replaced_data_file(path: str, version: int, add: AddFile, found_bytes: int) -> Finding:
    return Finding(
        "replaced-data-file", "error", path, version,
        f"This is a whole Parquet file of {found_bytes} bytes, but the log says {add.size}: it was replaced by "
        "another one.",
        f"Not repaired, because nobody can tell whether its rows belong here. {_COPY}, or {_OLDER}.",
    )  # fmt: skip


def wrong_num_records(
    path: str, version: int, add: AddFile, *, recorded: int | None, found: int, stats: str
) -> Finding:
    return Finding(
        "wrong-num-records", "error", path, version,
        f"The log says that this file has {recorded} rows, but it has {found}: counts taken from the log are wrong.",
        "Adds the file again with the number of rows that its footer has; no row changes.",
        RestateStatistics(add, stats),
    )  # fmt: skip


def narrow_statistics(path: str, version: int, add: AddFile, columns: tuple[str, ...], stats: str) -> Finding:
    shown = ", ".join(f"'{name}'" for name in columns[:5]) + (f" and {len(columns) - 5} more" * (len(columns) > 5))
    return Finding(
        "narrow-statistics", "error", path, version,
        f"The file holds values outside of the statistics that the log has for {shown}: queries can skip rows that "
        "match.",
        "Adds the file again with the bounds that its footer has; no row changes.",
        RestateStatistics(add, stats),
    )  # fmt: skip


def live_twice(path: str, version: int, older: AddFile) -> Finding:
    remedy = RemoveFromLog.of(older)
    vector = "without a deletion vector" if older.dv_id is None else f"with the deletion vector {older.dv_id}"
    return Finding(
        "live-twice", "error", path, version,
        "The log has this file twice, with different deletion vectors: its rows would be returned twice, so the table "
        "is not read at all.",
        f"Removes the older entry, the one {vector}, from the log and keeps the newest.",
        # The rows stay in the table: the newest entry shows them.
        RemoveFromLog(remedy.add, 0),
    )  # fmt: skip


def same_object_twice(path: str, other: str, version: int, older: AddFile) -> Finding:
    return Finding(
        "same-object-twice", "error", path, version,
        f"This path and '{other}' lead to one and the same object through a link, so its rows are returned twice.",
        f"Removes this path from the log; '{other}', which was added later, keeps the rows.",
        RemoveFromLog.of(older),
    )  # fmt: skip


def bad_partition_value(path: str, version: int, problem: str | DeltaError) -> Finding:
    return Finding(
        "bad-partition-value", "error", path, version,
        f"The log gives this file a partition value that is not valid: {_sentence(problem)}",
        f"Not repaired, because the right value is not known. {_OLDER}, or add the rows again from their source.",
    )  # fmt: skip


def files_outside(directory: str, version: int, count: int) -> Finding:
    files = "1 file" if count == 1 else f"{count:,} files"
    return Finding(
        "outside-root", "note", directory, version,
        f"{files} of the table lie here, outside of its directory, as in a shallow clone or through a link.",
        "Nothing to do. Whoever cleans up there can break this table.",
    )  # fmt: skip


def not_checked(path: str, version: int, reason: str | DeltaError) -> Finding:
    return Finding(
        "not-checked", "note", path, version, f"This file was not looked at: {_sentence(reason)}", "Nothing to do."
    )


# --- deletion vectors -------------------------------------------------------------------------------------------------

_VECTOR_ADVICE: Final = (
    "Not repaired: without its deletion vector the deleted rows of this data file would come back. "
    f"{_COPY}, {_OLDER}, or remove the data file with all of its rows by a DELETE of its partition."
)


def missing_vector_file(path: str, version: int, data_path: str) -> Finding:
    return Finding(
        "missing-vector-file", "error", path, version,
        f"The deletion vector of '{data_path}' is not there, so that file cannot be read.",
        _VECTOR_ADVICE,
    )  # fmt: skip


def corrupt_vector(path: str, version: int, data_path: str, problem: str | DeltaError) -> Finding:
    return Finding(
        "corrupt-vector", "error", path, version,
        f"The deletion vector of '{data_path}' cannot be read: {_sentence(problem)}",
        _VECTOR_ADVICE,
    )  # fmt: skip


def vector_cardinality(path: str, version: int, data_path: str, problem: str | DeltaError) -> Finding:
    return Finding(
        "vector-cardinality", "error", path, version,
        f"The deletion vector of '{data_path}' marks another number of rows than the log says: {_sentence(problem)}",
        _VECTOR_ADVICE,
    )  # fmt: skip


def vector_row_out_of_range(path: str, version: int, data_path: str, row: int, num_rows: int) -> Finding:
    return Finding(
        "vector-row-out-of-range", "error", path, version,
        f"The deletion vector of '{data_path}' marks row {row} of a file that has {num_rows} rows: it belongs to "
        "another file.",
        _VECTOR_ADVICE,
    )  # fmt: skip


def vectors_without_feature(version: int) -> Finding:
    return Finding(
        "vectors-without-feature", "error", "_delta_log", version,
        "Files have deletion vectors, but the table's protocol lacks the feature deletionVectors: other engines may "
        "show the deleted rows.",
        "Not repaired, because it would lock out readers. Let the protocol support them: "
        "DeltaTable.addFeatureSupport('deletionVectors').",
    )  # fmt: skip


# --- the log ----------------------------------------------------------------------------------------------------------


def missing_commits(first: int, last: int, path: str, *, is_needed: bool) -> Finding:
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return Finding(
        "missing-commit", "error" if is_needed else "warning", path, first,
        f"The log has no commit for {versions}, "
        + ("and the newest version cannot be rebuilt without it." if is_needed
           else "so that these versions, and what changed in them, cannot be read any more."),
        f"Not repaired: a lost commit cannot be invented. {_COPY}"
        + (", or read a version before the gap." if is_needed else ". Newer versions do not need it."),
    )  # fmt: skip


def corrupt_commit(path: str, version: int, problem: str | DeltaError, *, is_needed: bool) -> Finding:
    return Finding(
        "corrupt-commit", "error" if is_needed else "warning", path, version,
        f"This commit cannot be read: {_sentence(problem)}",
        f"Not repaired: the log is never overwritten. {_COPY}"
        + (", or read an older version." if is_needed else ". The newest version does not need it."),
    )  # fmt: skip


def corrupt_compacted_log(path: str, version: int, problem: str | DeltaError) -> Finding:
    return Finding(
        "corrupt-compacted-log", "warning", path, version,
        f"This compacted log file cannot be read: {_sentence(problem)}",
        "Nothing to do where its commits are there: readers use them instead. It can be deleted.",
    )  # fmt: skip


def incomplete_checkpoint(path: str, version: int, problem: str | DeltaError, *, is_replaced: bool) -> Finding:
    return _checkpoint("incomplete-checkpoint", path, version, problem, is_replaced=is_replaced)


def corrupt_checkpoint(path: str, version: int, problem: str | DeltaError, *, is_replaced: bool) -> Finding:
    return _checkpoint("corrupt-checkpoint", path, version, problem, is_replaced=is_replaced)


def _checkpoint(kind: str, path: str, version: int, problem: str | DeltaError, *, is_replaced: bool) -> Finding:
    """`is_replaced`: a newer checkpoint is whole, so that no reader of the newest version looks at this one."""
    repair = (
        "Nothing to do: a newer checkpoint is whole, and the log's cleanup deletes this one in time."
        if is_replaced
        else "Makes a new version with a checkpoint of its own, from which readers start; this file stays as it is."
    )
    return Finding(
        kind, "warning", path, version,
        f"This checkpoint cannot be used, so readers have to start further back: {_sentence(problem)}",
        repair,
        None if is_replaced else NewCheckpoint(),
    )  # fmt: skip


def checkpoint_disagrees(path: str, version: int, problem: str | DeltaError) -> Finding:
    return Finding(
        "checkpoint-disagrees", "error", path, version,
        f"This checkpoint says something else than the commits up to its version: {_sentence(problem)}",
        "Not repaired, because readers see the one or the other. The commits are the truth: move the checkpoint away, "
        "look at the table, and run this again.",
    )  # fmt: skip


def bad_last_checkpoint(path: str, version: int | None, problem: str | DeltaError) -> Finding:
    return Finding(
        "bad-last-checkpoint", "warning", path, version,
        f"The hint to the newest checkpoint cannot be followed: {_sentence(problem)}",
        "Makes a new version with a checkpoint, and lets the hint point to it.",
        NewCheckpoint(),
    )  # fmt: skip


def checksum_disagrees(path: str, version: int, problem: str | DeltaError) -> Finding:
    return Finding(
        "checksum-disagrees", "warning", path, version,
        f"The checksum of this version does not fit its state: {_sentence(problem)}",
        "Not repaired: a checksum is never overwritten, and later versions have their own. Readers that insist on it "
        "can be helped by deleting this file.",
    )  # fmt: skip


def missing_change_data(path: str, version: int) -> Finding:
    return Finding(
        "missing-change-data", "warning", path, version,
        f"Version {version} recorded its changes in this file, but it is not there: the change feed of that version "
        "cannot be read. The rows of the table are not affected.",
        f"Not repaired: the commit stays as it is. {_COPY}, or start reading changes after that version.",
    )  # fmt: skip


def unreadable_table(path: str, version: int | None, problem: str | DeltaError) -> Finding:
    return Finding(
        "unreadable-table", "error", path, version,
        f"The newest version cannot be read, so its files were not checked: {_sentence(problem)}",
        "Not repaired. Repair what is named here, or read a version before it.",
    )  # fmt: skip


def without_repair(finding: Finding) -> Finding:
    """The same finding in a table that cannot be read: nothing can be committed to it."""
    if finding.remedy is None:
        return finding
    return replace(finding, remedy=None, repair="Not repaired while the newest version cannot be read.")


def _sentence(problem: str | DeltaError) -> str:
    """The text of an error, without the name of its class, at the end of a sentence."""
    if isinstance(problem, DeltaError):
        problem = str(problem).removeprefix(f"[{problem.error_class}] ")
    return problem if problem.endswith((".", "!")) else f"{problem}."


def _rows(remedy: RemoveFromLog) -> str:
    if remedy.num_rows is None:
        return "its rows, an unknown number,"
    return "its 1 row" if remedy.num_rows == 1 else f"its {remedy.num_rows:,} rows"


def _those(remedy: RemoveFromLog) -> str:
    if remedy.num_rows is None:
        return "its rows"
    return "that row" if remedy.num_rows == 1 else f"those {remedy.num_rows:,} rows"
