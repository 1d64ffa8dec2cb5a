"""Which limits and switches does the engine have?

One frozen `EngineConfig`, made once at a front door (`table`, `sql`, `cli`) and passed down. Nothing below a front door
reads `spark.conf` or the environment. The limits exist because a table is untrusted input.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_CONFIG", "EngineConfig"]

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class EngineConfig:
    # A single action is at most this long; a longer log line is refused before it is parsed.
    max_log_line_bytes: int = 32 * MIB
    # One commit file (or JSON checkpoint) is at most this long.
    max_commit_bytes: int = 2048 * MIB
    # The memory that one checkpoint, sidecars included, may take. A table of ten million files needs about 10 GiB.
    max_checkpoint_bytes: int = 32 * GIB
    # How many times larger than its files a checkpoint may become in memory. Real ones stay below a few hundred; a file
    # made to exhaust memory reaches millions. Up to 256 MiB any ratio is accepted.
    max_checkpoint_expansion: int = 1000
    # One deletion vector's payload; the format itself stops at 2 GiB.
    max_deletion_vector_bytes: int = 1024 * MIB
    # The rows that one deletion vector may mark. A few bytes can mark billions, and a scan needs memory per 64 rows.
    max_deletion_vector_rows: int = 2**31
    # Absolute paths (data files or vectors) that leave the table's own store are refused unless this is on.
    allow_foreign_paths: bool = False
    # For tables that are not trusted: data files, change data and vectors outside the table's root are refused, and
    # so are symbolic links that lead out of it. Shallow clones need this off.
    inside_root_only: bool = False
    # Vectors are packed into one file until it reaches this size.
    deletion_vector_target_bytes: int = 2 * MIB
    # A writer that loses this many races in a row gives up with an error; it waits a little longer after each.
    max_commit_attempts: int = 1000
    # Functions that the expressions of a table (constraints, generated columns, defaults) may call besides the usual
    # ones, in lower case. Only Spark's own functions, and never those that run code by name.
    allowed_functions: frozenset[str] = frozenset()


DEFAULT_CONFIG = EngineConfig()
