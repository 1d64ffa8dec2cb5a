"""Which functions may the expressions that come with a table call?

A table is untrusted input, and its CHECK constraints, generated columns and defaults are programs in it. They may call
built-in functions that compute a value from their arguments and do nothing else. The list starts from what the
reference allows in generated columns and adds aliases of those functions and newer ones of the same kind. It leaves out
the `xpath` functions, whose XML parser follows references in a document, and everything that makes rows, aggregates,
draws random numbers, looks at the session or the files, or runs code. Not even a setting can allow `reflect`,
`java_method` and `try_reflect`. See docs/decisions/015.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ALLOWED_EVERYWHERE", "CLOCK", "NEVER_ALLOWED", "USER"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED_EVERYWHERE: Final = _names(
    """
    abs coalesce equal_null greatest if ifnull isnan isnotnull isnull least nanvl nullif nullifzero nvl nvl2
    when zeroifnull acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc
    degrees e exp expm1 factorial floor hex hypot ln log log10 log1p log2 mod negative pi pmod positive pow
    power radians rint round sec shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh
    unhex width_bucket try_add try_divide try_mod try_multiply try_subtract ascii base64 bit_length btrim char
    char_length character_length chr concat concat_ws contains decode elt encode endswith find_in_set
    format_number format_string get_json_object initcap instr lcase left len length levenshtein like ilike
    locate lower lpad ltrim mask octet_length overlay parse_url position printf regexp regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace
    reverse right rlike rpad rtrim sentences soundex space split split_part startswith str_to_map substr
    substring substring_index to_binary to_char to_number to_varchar translate trim try_to_binary try_to_number
    ucase unbase64 upper url_decode url_encode add_months date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval make_interval
    make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname months_between
    next_day now quarter second timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd
    timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp
    trunc try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday
    weekofyear window year aggregate array array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip cardinality element_at exists
    filter flatten forall get map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with named_struct reduce sequence size slice sort_array struct
    transform transform_keys transform_values try_element_at zip_with assert_true bit_count bit_get crc32 getbit
    hash md5 sha sha1 sha2 typeof xxhash64 from_csv from_json json_array_length json_object_keys schema_of_csv
    schema_of_json to_csv to_json bigint binary boolean decimal double float int smallint string tinyint
    """
)
# The time of a write is no secret, and constraints and defaults often depend on it.
CLOCK: Final = _names("curdate current_date current_timestamp localtimestamp now")
# Who writes a row, for defaults of audit columns.
USER: Final = _names("current_user session_user user")
NEVER_ALLOWED: Final = _names("java_method reflect try_reflect")
