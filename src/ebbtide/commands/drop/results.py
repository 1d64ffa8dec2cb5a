"""What does a DROP TABLE tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.commands.results import format_count

__all__ = ["CLONE_RISK", "DropResult"]

CLONE_RISK = "A shallow clone of this table elsewhere uses its files, which no log here knows: it would be broken."


@dataclass(frozen=True, slots=True, repr=False)
class DropResult:
    """What a DROP TABLE deleted, or would delete in a dry run. `is_found` is False when there was no table."""

    table_url: str
    num_files: int = 0
    num_log_files: int = 0
    size_in_bytes: int = 0
    num_versions: int = 0
    is_found: bool = True
    is_dry_run: bool = False

    def sentences(self) -> list[str]:
        """What happened, for people, the most important first."""
        if not self.is_found:
            return ["there was no table"]
        files = format_count(self.num_files, "data file")
        verb = "would be deleted" if self.is_dry_run else "deleted"
        told = [
            f"{files} and {format_count(self.num_log_files, 'log file')} {verb}",
            f"{self.size_in_bytes:,} bytes",
            format_count(self.num_versions, "version"),
        ]
        if self.is_dry_run:
            told.append(CLONE_RISK)
        return told

    def __repr__(self) -> str:
        at = " dry run" if self.is_dry_run else ""
        return f"<DropResult{at} {self.table_url}: {'; '.join(self.sentences())}>"
