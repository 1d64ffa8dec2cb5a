"""What does a VACUUM tell its caller?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import chain

from ebbtide.commands.results import format_count, named_metrics

__all__ = ["CLONE_RISK", "VacuumMetrics", "VacuumPaths", "VacuumResult"]

CLONE_RISK = (
    "A shallow clone of this table elsewhere uses files of this one, which no log here knows: VACUUM may delete them."
)


@dataclass(frozen=True, slots=True)
class VacuumMetrics:
    """`num_files_to_delete` and `num_deleted_files` count empty directories too, as the reference does."""

    num_files_to_delete: int = 0
    size_of_data_to_delete: int = 0
    num_deleted_files: int = 0
    num_vacuumed_directories: int = 0

    @property
    def operation_metrics(self) -> Mapping[str, int]:
        """All counters in the reference's spelling; VACUUM START records the first two and VACUUM END the others."""
        return named_metrics(self)


@dataclass(frozen=True, slots=True, repr=False)
class VacuumPaths:
    """Decoded paths below the root, in no order. There may be millions, so they are read from a file each time."""

    files: Iterable[str] = ()
    directories: tuple[str, ...] = ()
    count: int = 0

    def __iter__(self) -> Iterator[str]:
        return chain(self.files, self.directories)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"<{format_count(self.count, 'path')}>"


@dataclass(frozen=True, slots=True, repr=False)
class VacuumResult:
    """What a VACUUM deleted, or would delete in a dry run.

    `version` is that of the VACUUM END in the history; None for a dry run and where nothing is recorded. `paths` are
    what was to be deleted, and `failures` says why some (at most a thousand are named) could not be. `other_tables` are
    directories that were left alone because another table is in them.
    """

    version: int | None
    metrics: VacuumMetrics
    table_url: str
    spark_path: str
    cutoff_ms: int
    is_dry_run: bool = False
    is_lite: bool = False
    paths: VacuumPaths = field(default_factory=VacuumPaths)
    num_failed: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    num_links: int = 0
    other_tables: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        return "FAILED" if self.num_failed else "COMPLETED"

    @property
    def operation_metrics(self) -> Mapping[str, int]:
        return self.metrics.operation_metrics

    def absolute_paths(self) -> Iterator[str]:
        """`paths` as the reference shows them: below the table's location, not percent-encoded."""
        return (f"{self.spark_path}/{path}" for path in self.paths)

    def sentences(self) -> list[str]:
        """What happened, for people, the most important first."""
        metrics = self.metrics
        number = metrics.num_files_to_delete if self.is_dry_run else metrics.num_deleted_files
        verb = "would be deleted" if self.is_dry_run else "deleted"
        sentences = [f"{format_count(number, 'path')} {verb}", f"{metrics.size_of_data_to_delete:,} bytes"]
        if self.num_failed:
            sentences.append(f"{format_count(self.num_failed, 'file')} could not be deleted")
        if self.num_links:
            sentences.append(f"{format_count(self.num_links, 'symbolic link')} left alone")
        if self.other_tables:
            sentences.append(f"other tables left alone: {', '.join(self.other_tables[:10])}")
        if self.is_dry_run:
            sentences.append(CLONE_RISK)
        return sentences

    def __repr__(self) -> str:
        at = " dry run" if self.is_dry_run else "" if self.version is None else f" version {self.version}"
        return f"<VacuumResult{at}: {'; '.join(self.sentences())}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align:right'>{value:,}</td></tr>"
            for name, value in self.operation_metrics.items()
        )
        return f"<b>VACUUM</b> {escape(self.table_url)}: {escape('; '.join(self.sentences()))}<table>{rows}</table>"
