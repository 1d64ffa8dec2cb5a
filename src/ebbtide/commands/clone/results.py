"""What does a CLONE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.commands.results import format_count, named_metrics

__all__ = ["CloneMetrics", "CloneResult"]


@dataclass(frozen=True, slots=True)
class CloneMetrics:
    """The counters of one CLONE, under the names Delta users know. A shallow clone copies and removes no file."""

    source_table_size: int = 0
    source_num_of_files: int = 0
    num_removed_files: int = 0
    num_copied_files: int = 0
    removed_files_size: int = 0
    copied_files_size: int = 0

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records."""
        return named_metrics(self)


@dataclass(frozen=True, slots=True, repr=False)
class CloneResult:
    """What a CLONE did. `version` is the version of the clone that it made.

    None: there was a table already, which was left alone as the request asked; or it was a dry run.
    """

    version: int | None
    metrics: CloneMetrics
    table_url: str
    source_url: str
    source_version: int

    def __repr__(self) -> str:
        if self.version is None:
            return f"<CloneResult: nothing was committed to {self.table_url}>"
        files = format_count(self.metrics.source_num_of_files, "file")
        return (
            f"<CloneResult version {self.version} of {self.table_url}: {files} of {self.source_url}, version "
            f"{self.source_version}>"
        )
