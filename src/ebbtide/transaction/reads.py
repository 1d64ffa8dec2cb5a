"""What did a transaction read?

If a winner changed none of it, our result is still right. Conditions on partition columns say which new files could
have mattered; the paths of the files that were read say whose removal matters; application ids say whose progress was
read. Files are compared by path alone here, as the reference does: any change to a file that was read counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.log import Snapshot
from ebbtide.log.file_tables import STRING_MAP_TYPE
from ebbtide.log.identity import canonical_column
from ebbtide.protocol.actions import AddFile
from ebbtide.protocol.features import column_mapping_mode
from ebbtide.protocol.paths import canonical_path
from ebbtide.pruning import prune
from ebbtide.sql_text import ReadingSettings

__all__ = ["ReadPredicate", "Reads"]


@dataclass(frozen=True, slots=True)
class ReadPredicate:
    """The part of a condition that uses partition columns only, as SQL; None when any file could have mattered.

    The other fields say how to read the text.
    """

    partition_condition: str | None = None
    alias: str | None = None
    settings: ReadingSettings = field(default_factory=ReadingSettings)

    def first_match(self, adds: Sequence[AddFile], snapshot: Snapshot) -> AddFile | None:
        """The first file that the predicate would have read, or may have read."""
        if not adds or self.partition_condition is None or not snapshot.metadata.partition_columns:
            return adds[0] if adds else None
        values = pa.array([list(add.partition_values.items()) for add in adds], STRING_MAP_TYPE)
        files = pa.table(
            {
                "partition_values": values,
                # Statistics are left out: only its partition may rule a file out, not a condition on data.
                "stats": pa.nulls(len(adds), pa.string()),
                "position": pa.array(range(len(adds)), pa.int64()),
            }
        )
        kept = prune(
            files,
            self.partition_condition,
            schema=snapshot.schema,
            partition_columns=snapshot.metadata.partition_columns,
            column_mapping_mode=column_mapping_mode(snapshot.protocol, snapshot.metadata),
            alias=self.alias,
            case_sensitive=self.settings.case_sensitive,
            session_timezone=self.settings.session_timezone,
            compares_dates_as_text=self.settings.compares_dates_as_text,
        ).column("position")
        return adds[kept[0].as_py()] if len(kept) else None


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """Everything that was read. Immutable: `with_...` returns a larger one, so the conflict rules can keep theirs."""

    predicates: tuple[ReadPredicate, ...] = ()
    # Encoded paths, one column per read: a million of them stay in Arrow.
    paths: tuple[pa.ChunkedArray, ...] = ()
    whole_table: bool = False
    app_ids: frozenset[str] = frozenset()

    @property
    def is_blind(self) -> bool:
        """Whether no file could have influenced what is written."""
        return not self.predicates and not self.whole_table and not any(map(len, self.paths))

    def with_files(self, predicate: ReadPredicate, files: pa.Table) -> Reads:
        return replace(self, predicates=(*self.predicates, predicate), paths=(*self.paths, files.column("path")))

    def with_whole_table(self) -> Reads:
        return replace(self, whole_table=True)

    def with_app_id(self, app_id: str) -> Reads:
        return replace(self, app_ids=self.app_ids | {app_id})

    def first_matching(self, adds: Sequence[AddFile], snapshot: Snapshot) -> AddFile | None:
        """The first of a winner's files that one of our reads would have seen."""
        if self.whole_table:
            return adds[0] if adds else None
        found = (predicate.first_match(adds, snapshot) for predicate in self.predicates)
        return next((add for add in found if add is not None), None)

    def first_read_path(self, encoded_paths: Iterable[str], table_url: str) -> str | None:
        """The first of the paths that was read, however either side spells it."""
        wanted = {canonical_path(path, table_url): path for path in encoded_paths}
        values = pa.array(list(wanted), pa.string())
        if self.whole_table:
            return next(iter(wanted.values()), None)
        for column in self.paths if wanted else ():
            for chunk in column.chunks:
                canonical = canonical_column(chunk, table_url)
                found = canonical.filter(pc.is_in(canonical, value_set=values))
                if len(found):
                    return wanted[found[0].as_py()]
        return None
