"""What does a table become when all its columns are said anew? ALTER TABLE ... REPLACE COLUMNS.

The statement lists every column. Those that the table has are found by name: they keep their values, take the new
place, and a comment if one is given; null is allowed from then on. Others are added, and those that are missing are
dropped, which takes column mapping. One statement may not do both in the same struct: it may be a renamed column, and
its values would be lost. As in the reference, only changes that hold for the files as they are get through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import orjson

from ebbtide.commands.define.columns import NewColumn, refuse_drop, refuse_rules
from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.dependents import refuse_dependents
from ebbtide.commands.define.schemas import schema_actions, shown_field, with_stats_columns
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.schema import CHAR_VARCHAR, ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from ebbtide.protocol.schema_edits import FieldPath, change_type, shown_path
from ebbtide.protocol.type_changes import is_readable_type_change
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["replace_columns"]

_REFUSED = "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
_VOID = PrimitiveType("void")


def replace_columns(store: ObjectStore, columns: Sequence[StructField], *, options: WriteOptions) -> AlterResult:
    """Give the table these columns. Rows written before show null in those that are new."""
    wanted = StructType(tuple(columns))
    _refuse_repeated(wanted)

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        _refuse_identities(snapshot)
        plan = _Replacement(snapshot, options.is_case_sensitive)
        schema = plan.replaced_struct(snapshot.schema, wanted, ())
        configuration = snapshot.metadata.configuration
        for path in plan.dropped:
            refuse_drop(snapshot, path)
            configuration = with_stats_columns(configuration, path, None)
        for path, kind in plan.widened:
            refuse_dependents(snapshot, path, "given another type")
            schema = change_type(schema, path, kind)
        shown = [shown_field(column, (column.name,)) for column in columns]
        parameters = {"columns": orjson.dumps(shown).decode()}
        operation = Operation("REPLACE COLUMNS", parameters, user_metadata=options.user_metadata)
        return schema_actions(snapshot, schema, added=plan.added, configuration=configuration), operation

    return commit_change(store, change, options)


@dataclass(slots=True)
class _Replacement:
    """Puts the wanted columns beside those of the table, and notes what that means."""

    snapshot: Snapshot
    # Whether letter case counts in the names of columns.
    is_exact: bool = False
    added: list[StructField] = field(default_factory=list)
    dropped: list[FieldPath] = field(default_factory=list)
    widened: list[tuple[FieldPath, PrimitiveType]] = field(default_factory=list)

    def replaced_struct(self, old: StructType, new: StructType, path: FieldPath) -> StructType:
        """The fields of `new` in their order; those that `old` has are its own, with the types they had."""
        fields = [self._replaced_field(self._find(old, item.name), item, path) for item in new.fields]
        missing = [(*path, item.name) for item in old.fields if self._find(new, item.name) is None]
        is_adding = any(self._find(old, item.name) is None for item in new.fields)
        if missing and is_adding:
            where = f"in '{shown_path(path)}'" if path else "of the table"
            raise _refusal(
                f"the columns {where} would lose {_name_list(missing)} and gain others, and it is not known whether "
                "one of them is meant to be the other. Use RENAME COLUMN, or drop and add columns one after the other"
            )
        if missing and self.snapshot.properties.column_mapping_mode == "none":
            raise _refusal(
                f"the new columns leave out {_name_list(missing)}, and dropping columns takes column mapping. Name all "
                "columns, or SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name') first"
            )
        self.dropped += missing
        return StructType(tuple(fields))

    def _find(self, struct: StructType, name: str) -> StructField | None:
        found = struct.get(name)
        return None if found is None or (self.is_exact and found.name != name) else found

    def _replaced_field(self, old: StructField | None, new: StructField, path: FieldPath) -> StructField:
        if old is None:
            refuse_rules(NewColumn(new, path))
            self.added.append(new)
            return new
        here = (*path, old.name)
        if old.nullable and not new.nullable:
            raise _refusal(
                f"'{shown_path(here)}' may be null, and rows that are there may have used that. Leave NOT NULL out, "
                f"and ADD CONSTRAINT name CHECK ({shown_path(here)} IS NOT NULL)"
            )
        if old.metadata.get(CHAR_VARCHAR) != new.metadata.get(CHAR_VARCHAR):
            raise _refusal(f"'{shown_path(here)}' would have another length. Use ALTER COLUMN ... TYPE")
        comment = {"comment": new.metadata["comment"]} if "comment" in new.metadata else {}
        kind = self._replaced_type(old.type, new.type, here)
        return replace(old, type=kind, nullable=new.nullable, metadata={**old.metadata, **comment})

    def _replaced_type(self, old: DataType, new: DataType, path: FieldPath) -> DataType:
        match old, new:
            case StructType(), StructType():
                return self.replaced_struct(old, new, path)
            case ArrayType(), ArrayType():
                self._refuse_tighter(old.contains_null, new.contains_null, path)
                element = self._replaced_type(old.element_type, new.element_type, (*path, "element"))
                return replace(old, element_type=element)
            case MapType(), MapType():
                self._refuse_tighter(old.value_contains_null, new.value_contains_null, path)
                key = self._replaced_type(old.key_type, new.key_type, (*path, "key"))
                value = self._replaced_type(old.value_type, new.value_type, (*path, "value"))
                return replace(old, key_type=key, value_type=value)
            case PrimitiveType(), PrimitiveType() if old not in {new, _VOID} and self._may_widen(old, new):
                self.widened.append((path, new))
                return old
        if old not in {new, _VOID}:
            raise _refusal(
                f"the type of '{shown_path(path)}' would change from {_type_text(old)} to {_type_text(new)}. Name its "
                "type as it is; a wider one needs the property delta.enableTypeWidening"
            )
        return new

    def _may_widen(self, old: PrimitiveType, new: PrimitiveType) -> bool:
        return self.snapshot.properties.enable_type_widening and is_readable_type_change(old, new)

    def _refuse_tighter(self, old: bool, new: bool, path: FieldPath) -> None:
        if old and not new:
            raise _refusal(f"'{shown_path(path)}' may hold nulls, and rows that are there may have used that")


def _refuse_identities(snapshot: Snapshot) -> None:
    found = [column.name for column in snapshot.schema.fields if column.is_identity]
    if found:
        raise SchemaMismatchError(
            f"The columns of the table at {snapshot.store.url} cannot be replaced: {found[0]} is an identity column. "
            "Add, drop and change the others one by one.",
            error_class="DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED",
        )


def _refuse_repeated(wanted: StructType) -> None:
    seen: set[str] = set()
    for name in wanted.names:
        if name.lower() in seen:
            raise SchemaMismatchError(
                f"The column '{name}' is named twice (case does not count).", error_class="FIELD_ALREADY_EXISTS"
            )
        seen.add(name.lower())


def _refusal(reason: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"The columns cannot be replaced: {reason}.", error_class=_REFUSED)


def _name_list(paths: Sequence[FieldPath]) -> str:
    return ", ".join(f"'{shown_path(path)}'" for path in paths[:20])


def _type_text(kind: DataType) -> str:
    return kind.name if isinstance(kind, PrimitiveType) else str(dict(kind.to_json())["type"])
