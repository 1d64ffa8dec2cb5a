"""What does a CONVERT TO DELTA tell its caller?"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.commands.results import format_count
from ebbtide.protocol.schema import StructType

__all__ = ["ConvertResult"]


@dataclass(frozen=True, slots=True, repr=False)
class ConvertResult:
    """What a CONVERT did. `version` is None when the folder was a Delta table already, or in a dry run."""

    version: int | None
    table_url: str
    num_converted_files: int = 0
    size_in_bytes: int = 0
    # None when the folder was a Delta table already.
    schema: StructType | None = None
    partition_columns: tuple[str, ...] = ()

    @property
    def operation_metrics(self) -> dict[str, int]:
        """What the commit records."""
        return {"numConvertedFiles": self.num_converted_files}

    def __repr__(self) -> str:
        if self.version is None:
            return f"<ConvertResult: nothing was committed to {self.table_url}>"
        return f"<ConvertResult version {self.version}: {format_count(self.num_converted_files, 'file')} converted>"
