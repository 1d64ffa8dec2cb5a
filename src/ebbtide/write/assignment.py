"""How does a value become the value of a column?

The rows to write have values of some type, and the table has its own types. `cast_for_column` casts by the rules that
Spark calls store assignment (spark.sql.storeAssignmentPolicy), independent of how the session casts elsewhere:

    ANSI     numbers to numbers, dates and times to each other, anything to a string, a string to the value it spells.
             A value that does not fit fails the query; it never wraps around and never becomes null.
    STRICT   only casts that cannot lose anything.
    LEGACY   whatever Spark's own cast accepts, with the session's settings.

Structs are stored field by field by name, arrays and maps element by element. As in the reference, strings are parsed
where Spark's INSERT would refuse them: people write dates as strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.errors import RequestError, SchemaMismatchError
from ebbtide.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from ebbtide.write.columns import same_shape, spark_type

__all__ = ["POLICIES", "cast_for_column"]

POLICIES: Final = ("ANSI", "LEGACY", "STRICT")
_CANNOT_CAST: Final = "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"
_CANNOT_UP_CAST: Final = "CANNOT_UP_CAST_DATATYPE"
_OVERFLOW: Final = "CAST_OVERFLOW_IN_TABLE_INSERT"
_INVALID: Final = "CAST_INVALID_INPUT"
_DATE_TIMES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
_PARSED: Final = (T.BooleanType, T.BinaryType, T.NumericType, *_DATE_TIMES)
# Each may be stored in every later one without loss, as Spark counts it.
_WIDENING: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType)
_DIGITS: Final[dict[type[T.DataType], int]] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 20}
_SHOWN_CHARACTERS: Final = 200


def cast_for_column(value: Column, given: T.DataType, field: StructField, *, policy: str = "ANSI") -> Column:
    """`value`, of type `given`, as the type of the column `field`.

    SchemaMismatchError when no value of the type can be stored in the column. A value that does not fit fails the
    query, which `spark_border.spark_errors` turns into a RequestError that names the value.
    """
    wanted = policy.upper()
    if wanted not in POLICIES:
        raise RequestError(f"The store assignment policy {policy!r} is not known; expected one of {POLICIES}.")
    return _cast(value, given, field.type, field.name, wanted)


def _cast(value: Column, given: T.DataType, wanted: DataType, where: str, policy: str) -> Column:
    target = spark_type(wanted)
    if isinstance(given, T.NullType):
        return F.lit(None).cast(target)
    if same_shape(given, target):
        return value
    match given, wanted:
        case T.StructType(), StructType():
            return _cast_struct(value, given, wanted, where, policy)
        case T.ArrayType(), ArrayType():
            return _cast_array(value, given, wanted, where, policy)
        case T.MapType(), MapType():
            return _cast_map(value, given, wanted, where, policy)
    if isinstance(wanted, StructType | ArrayType | MapType):
        raise _refusal(given, target, where, "DELTA_FAILED_TO_MERGE_FIELDS")
    if policy == "LEGACY":
        return value.cast(target)
    if not (_can_widen(given, target) if policy == "STRICT" else _can_store(given, target)):
        raise _refusal(given, target, where, _CANNOT_UP_CAST if policy == "STRICT" else _CANNOT_CAST)
    return _checked_cast(value, given, target, where)


def _cast_struct(value: Column, given: T.StructType, wanted: StructType, where: str, policy: str) -> Column:
    sources = {field.name.lower(): field for field in given.fields}
    extra = sorted(set(sources) - {field.name.lower() for field in wanted.fields})
    if extra:
        raise SchemaMismatchError(
            f"The value for '{where}' has the field '{sources[extra[0]].name}', which the column does not have. It has "
            f"{', '.join(wanted.names)}. Leave the field out, or add it to the table first.",
            error_class="DELTA_FAILED_TO_MERGE_FIELDS",
        )
    fields = []
    for field in wanted.fields:
        source = sources.get(field.name.lower())
        if source is None:
            fields.append(F.lit(None).cast(spark_type(field.type)).alias(field.name))
        else:
            part = _cast(value.getField(source.name), source.dataType, field.type, f"{where}.{field.name}", policy)
            fields.append(part.alias(field.name))
    # A struct that is null stays null: it must not become a struct of nulls.
    return F.when(value.isNotNull(), F.struct(*fields)).otherwise(F.lit(None).cast(spark_type(wanted)))


def _cast_array(value: Column, given: T.ArrayType, wanted: ArrayType, where: str, policy: str) -> Column:
    convert = _converter(given.elementType, wanted.element_type, f"{where}.element", policy)
    return value if convert is None else F.transform(value, convert)


def _cast_map(value: Column, given: T.MapType, wanted: MapType, where: str, policy: str) -> Column:
    keys = _converter(given.keyType, wanted.key_type, f"{where}.key", policy)
    values = _converter(given.valueType, wanted.value_type, f"{where}.value", policy)
    if keys is None and values is None:
        return value
    as_key = keys or (lambda key: key)
    as_value = values or (lambda item: item)
    # Keys that differ may become equal: then Spark's own rule for such maps decides, and by default it refuses.
    return F.map_from_entries(
        F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                as_key(entry.getField("key")).alias("key"), as_value(entry.getField("value")).alias("value")
            ),
        )
    )


def _converter(given: T.DataType, wanted: DataType, where: str, policy: str) -> Callable[[Column], Column] | None:
    """A function that casts an element to the wanted type; None when it has that type and nothing need be rebuilt."""
    if same_shape(given, spark_type(wanted)):
        return None
    # Called for its errors: Spark calls the lambda only when it builds the plan.
    _cast(F.lit(None).cast(given), given, wanted, where, policy)
    return lambda element: _cast(element, given, wanted, where, policy)


def _checked_cast(value: Column, given: T.DataType, target: T.DataType, where: str) -> Column:
    """A cast that fails on a value that does not fit, whatever the session's cast mode."""
    if isinstance(target, T.StringType) or _can_widen(given, target):
        return value.cast(target)
    # NaN and the infinities do not exist in other types, so every value is shown as text.
    shown = F.substring(value.cast("string"), 1, _SHOWN_CHARACTERS)
    is_text = isinstance(given, T.StringType)
    problem = "is not a value of" if is_text else "does not fit into"
    message = F.concat(
        F.lit("The value '"), shown, F.lit(f"' for the column '{where}' {problem} {target.simpleString()}.")
    )
    failure = border.failure(_INVALID if is_text else _OVERFLOW, message)
    cast = value.try_cast(target)
    return F.when(value.isNotNull() & cast.isNull(), failure).otherwise(cast)


def _can_store(given: T.DataType, target: T.DataType) -> bool:
    if isinstance(given, T.NumericType) and isinstance(target, T.NumericType):
        return True
    if isinstance(given, _DATE_TIMES) and isinstance(target, _DATE_TIMES):
        return True
    if isinstance(given, T.StringType):
        return isinstance(target, (*_PARSED, T.StringType))
    return isinstance(target, T.StringType) and isinstance(given, T.AtomicType | T.BooleanType | T.BinaryType)


def _can_widen(given: T.DataType, target: T.DataType) -> bool:
    """Whether no value is lost or changed; Spark's up-casts."""
    if isinstance(target, T.DecimalType):
        digits = _DIGITS.get(type(given))
        if isinstance(given, T.DecimalType):
            scale = target.scale - given.scale
            return scale >= 0 and target.precision - target.scale >= given.precision - given.scale
        return digits is not None and target.precision - target.scale >= digits
    if type(given) in _WIDENING and type(target) in _WIDENING:
        return _WIDENING.index(type(given)) <= _WIDENING.index(type(target))
    if isinstance(given, _DATE_TIMES) and isinstance(target, _DATE_TIMES):
        return not isinstance(target, T.DateType)
    return isinstance(target, T.StringType) and isinstance(given, T.AtomicType)


def _refusal(given: T.DataType, target: T.DataType, where: str, error_class: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"A value of type {given.simpleString()} cannot be stored in the column '{where}' of type "
        f"{target.simpleString()}. Cast it to what is meant.",
        error_class=error_class,
    )
