"""How is a step said in Spark's SQL? Ebbtide, delta-spark and Sail are told in the same words.

Takes a definition or a step and gives the text. Which table is meant is the caller's to say: a path, or a name.
"""

from __future__ import annotations

from interop.features import Definition
from interop.steps import KEY, Step

__all__ = ["at_path", "changed", "created", "with_checks"]


def at_path(path: str) -> str:
    return f"delta.`{path}`"


def created(target: str, definition: Definition, *, location: str = "", checks_as_properties: bool = False) -> str:
    """CREATE TABLE. Only Ebbtide takes CHECK constraints as the properties that they are."""
    columns = ", ".join(
        f"{name} {kind}{_generated(definition.generated.get(name))}" for name, kind in definition.columns
    )
    properties = dict(definition.properties)
    if checks_as_properties:
        properties |= {f"delta.constraints.{name}": sql for name, sql in definition.checks.items()}
    text = f"CREATE TABLE {target} ({columns}) USING delta"
    if definition.partition_by:
        text += f" PARTITIONED BY ({', '.join(definition.partition_by)})"
    if location:
        text += f" LOCATION '{location}'"
    if properties:
        text += f" TBLPROPERTIES ({', '.join(f'{name!r} = {value!r}' for name, value in properties.items())})"
    return text


def with_checks(target: str, definition: Definition) -> list[str]:
    return [f"ALTER TABLE {target} ADD CONSTRAINT {name} CHECK ({sql})" for name, sql in definition.checks.items()]


def changed(target: str, step: Step) -> str:
    """DELETE, UPDATE, MERGE and the statements of maintenance, which Sail does not have."""
    match step.kind:
        case "delete":
            return f"DELETE FROM {target} WHERE {step.where}"
        case "update":
            return f"UPDATE {target} SET n = n + {step.amount} WHERE {step.where}"
        case "merge":
            matched = "DELETE" if step.deletes else "UPDATE SET *"
            return (
                f"MERGE INTO {target} AS t USING parquet.`{step.source}` AS s ON t.{KEY} = s.{KEY} "
                f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
            )
        case "optimize":
            return f"OPTIMIZE {target}"
        case "zorder":
            return f"OPTIMIZE {target} ZORDER BY ({KEY}, n)"
        case "purge":
            return f"REORG TABLE {target} APPLY (PURGE)"
        case "vacuum":
            return f"VACUUM {target} RETAIN 0 HOURS"
        case "lite vacuum":
            return f"VACUUM {target} LITE RETAIN 0 HOURS"
        case "clone":
            return f"CREATE TABLE {at_path(step.target)} SHALLOW CLONE {target}"
        case "restore":
            return f"RESTORE TABLE {target} TO VERSION AS OF {step.version}"
    raise ValueError(f"there is no statement for {step.kind}")


def _generated(sql: str | None) -> str:
    return f" GENERATED ALWAYS AS ({sql})" if sql else ""
