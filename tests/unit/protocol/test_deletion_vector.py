"""Does a descriptor say where its vector is and who it is, and can a broken one exist at all?"""

from __future__ import annotations

import dataclasses
import json
from uuid import UUID

import pytest

from ebbtide.errors import CorruptDeletionVectorError, RequestError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor

ID = UUID("61d16c75-6994-46b7-a15b-8b538852e50e")
ENCODED_ID = "vBn[lx{q8@P<9BNH/isA"
FILE_NAME = f"deletion_vector_{ID}.bin"
EMPTY = DeletionVectorDescriptor.EMPTY
PATH_ERROR = "DELTA_CANNOT_RECONSTRUCT_PATH_FROM_URI"


def relative(*, prefix="", offset=1):
    return DeletionVectorDescriptor.on_disk_with_relative_path(
        ID, random_prefix=prefix, offset=offset, size_in_bytes=36, cardinality=2
    )


def absolute(path="s3://bucket/a%20b/x.bin", *, offset=1):
    return DeletionVectorDescriptor.on_disk_with_absolute_path(path, offset=offset, size_in_bytes=36, cardinality=2)


def inline():
    return DeletionVectorDescriptor.inline_in_log(b"\x01\x02\x03\x04", 2)


def as_json(**changes):
    fields = {"storageType": "u", "pathOrInlineDv": ENCODED_ID, "offset": 1, "sizeInBytes": 36, "cardinality": 2}
    return {name: value for name, value in {**fields, **changes}.items() if value is not ...}


# --- factories and flags ----------------------------------------------------------------------------------------------


def test_empty_is_an_inline_vector_of_nothing():
    assert EMPTY.to_json() == {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
    assert EMPTY.is_empty
    assert EMPTY.is_inline
    assert EMPTY.inline_data == b""


def test_relative_descriptor_carries_its_uuid_in_z85():
    descriptor = relative()
    assert descriptor.storage_type == "u"
    assert descriptor.path_or_inline_dv == ENCODED_ID
    assert descriptor.random_prefix_and_uuid == ("", ID)


def test_prefix_stands_before_the_uuid_and_becomes_a_directory():
    descriptor = relative(prefix="aB")
    assert descriptor.path_or_inline_dv == "aB" + ENCODED_ID
    assert descriptor.random_prefix_and_uuid == ("aB", ID)
    assert descriptor.relative_path == f"aB/{FILE_NAME}"


def test_protocol_example_resolves_to_the_published_path():
    descriptor = DeletionVectorDescriptor.from_json(as_json(pathOrInlineDv="ab^-aqEH.-t@S}K{vb[*k^"))
    assert descriptor.absolute_path("s3://mytable") == (
        "s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    )


def test_inline_descriptor_carries_its_data():
    assert inline().path_or_inline_dv == "0rJua"
    assert inline().size_in_bytes == 4
    assert inline().offset is None
    assert inline().inline_data == b"\x01\x02\x03\x04"


def test_inline_data_is_cut_to_its_size():
    assert DeletionVectorDescriptor.inline_in_log(b"\x01\x02\x03", 1).inline_data == b"\x01\x02\x03"


@pytest.mark.parametrize(
    ("descriptor", "flags"),
    [
        (relative(), {"is_on_disk", "is_relative"}),
        (absolute(), {"is_on_disk", "is_absolute"}),
        (inline(), {"is_inline"}),
        (EMPTY, {"is_inline", "is_empty"}),
    ],
    ids=["relative", "absolute", "inline", "empty"],
)
def test_flags_follow_the_storage_type(descriptor, flags):
    names = ("is_on_disk", "is_inline", "is_relative", "is_absolute", "is_empty")
    assert {name for name in names if getattr(descriptor, name)} == flags


def test_descriptor_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        relative().cardinality = 3


def test_max_row_index_is_no_part_of_equality_nor_of_the_log():
    with_index = dataclasses.replace(relative(), max_row_index=9)
    assert with_index == relative()
    assert with_index.max_row_index == 9
    assert with_index.to_json() == relative().to_json()


# --- identity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("descriptor", "unique_id"),
    [
        (relative(), f"u{ENCODED_ID}@1"),
        (relative(offset=None), f"u{ENCODED_ID}"),
        (absolute(), "ps3://bucket/a%20b/x.bin@1"),
        (absolute(offset=None), "ps3://bucket/a%20b/x.bin"),
        (inline(), "i0rJua"),
    ],
    ids=["relative", "relative without offset", "absolute", "absolute without offset", "inline"],
)
def test_unique_id_follows_the_fields(descriptor, unique_id):
    assert descriptor.unique_id == unique_id
    assert descriptor.unique_file_id == unique_id.removesuffix("@1")


def test_two_vectors_of_one_file_share_the_file_id_only():
    first, second = relative(offset=1), relative(offset=45)
    assert first.unique_file_id == second.unique_file_id
    assert first.unique_id != second.unique_id


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["s3://bucket/a b%20c", "s3://bucket/a b%20c/", "file:/tmp/t", "/tmp/t"])
def test_relative_path_is_assembled_below_the_decoded_table(table):
    assert relative(prefix="zz").absolute_path(table) == f"{table.rstrip('/')}/zz/{FILE_NAME}"


@pytest.mark.parametrize(
    ("uri", "decoded"),
    [
        ("s3://bucket/a%20b/x.bin", "s3://bucket/a b/x.bin"),
        ("file:///tmp/100%25%23/x.bin", "file:/tmp/100%#/x.bin"),
        ("file:/tmp/x.bin", "file:/tmp/x.bin"),
        ("abfss://c@a.dfs.core.windows.net/x.bin", "abfss://c@a.dfs.core.windows.net/x.bin"),
        ("file:///t%C3%A9/ü.bin", "file:/té/ü.bin"),
        ("s3://bucket//x.bin", "s3://bucket//x.bin"),
    ],
)
def test_absolute_uri_is_decoded_whatever_the_table(uri, decoded):
    assert absolute(uri).absolute_path("s3://elsewhere") == decoded


def test_inline_vector_has_no_path():
    with pytest.raises(RequestError, match="no path"):
        inline().absolute_path("s3://bucket/t")


def test_data_of_a_vector_on_disk_is_not_inline():
    with pytest.raises(RequestError, match="not inline"):
        _ = relative().inline_data


@pytest.mark.parametrize("descriptor", [absolute(), inline()], ids=["absolute", "inline"])
def test_only_relative_vectors_have_a_uuid(descriptor):
    with pytest.raises(RequestError, match="Only a deletion vector of type 'u'"):
        _ = descriptor.random_prefix_and_uuid


@pytest.mark.parametrize(
    ("table", "encoded"),
    [
        ("s3://bucket/a b", "s3://bucket/a%20b"),
        ("file:/tmp/100%#[é]", "file:/tmp/100%25%23%5Bé%5D"),
        ("file:/tmp/a:b@c", "file:/tmp/a:b@c"),
    ],
)
def test_copy_with_absolute_path_encodes_the_table_and_keeps_the_rest(table, encoded):
    copy = relative(prefix="ab").copy_with_absolute_path(table)
    assert copy == dataclasses.replace(relative(), storage_type="p", path_or_inline_dv=f"{encoded}/ab/{FILE_NAME}")
    assert copy.absolute_path("ignored://") == relative(prefix="ab").absolute_path(table)


@pytest.mark.parametrize("descriptor", [absolute(), inline()], ids=["absolute", "inline"])
def test_copy_with_absolute_path_leaves_others_alone(descriptor):
    assert descriptor.copy_with_absolute_path("s3://bucket/t") == descriptor


def test_copy_with_absolute_path_needs_a_table_with_a_scheme():
    with pytest.raises(RequestError, match="with a scheme"):
        relative().copy_with_absolute_path("/tmp/t")


# --- the log's JSON ---------------------------------------------------------------------------------------------------


def test_json_round_trip_keeps_order_and_omits_absent_options():
    assert json.dumps(relative().to_json()) == json.dumps(as_json())
    assert "offset" not in relative(offset=None).to_json()
    for descriptor in (relative(), relative(offset=None), absolute(), inline(), EMPTY):
        assert DeletionVectorDescriptor.from_json(descriptor.to_json()) == descriptor


@pytest.mark.parametrize("offset", [None, ...], ids=["null", "absent"])
def test_null_and_absent_options_are_read_alike(offset):
    assert DeletionVectorDescriptor.from_json(as_json(offset=offset)) == relative(offset=None)


def test_unknown_fields_and_a_max_row_index_column_are_tolerated():
    descriptor = DeletionVectorDescriptor.from_json(as_json(maxRowIndex=None, future="x"))
    assert descriptor == relative()
    assert DeletionVectorDescriptor.from_json(as_json(maxRowIndex=7)).max_row_index is None


def test_integral_number_is_read_as_an_integer():
    assert DeletionVectorDescriptor.from_json(as_json(sizeInBytes=36.0)).to_json()["sizeInBytes"] == 36


@pytest.mark.parametrize(
    "changes",
    [
        *({name: ...} for name in ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")),
        *({name: None} for name in ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")),
        *({name: -1} for name in ("offset", "sizeInBytes", "cardinality")),
        *({name: "1"} for name in ("offset", "sizeInBytes", "cardinality")),
        *({name: True} for name in ("offset", "sizeInBytes", "cardinality")),
        *({name: 1.5} for name in ("offset", "sizeInBytes", "cardinality")),
        *({name: float("nan")} for name in ("offset", "sizeInBytes", "cardinality")),
        {"sizeInBytes": 2**31},
        {"offset": 2**31},
        {"cardinality": 2**63},
        {"cardinality": 1e300},
        {"storageType": ["u"]},
        {"pathOrInlineDv": 7},
    ],
    ids=str,
)
def test_log_with_a_broken_field_is_corrupt(changes):
    with pytest.raises(CorruptDeletionVectorError):
        DeletionVectorDescriptor.from_json(as_json(**changes))


@pytest.mark.parametrize("obj", [None, [], "u", 3])
def test_log_without_an_object_is_corrupt(obj):
    with pytest.raises(CorruptDeletionVectorError, match="must be an object"):
        DeletionVectorDescriptor.from_json(obj)


@pytest.mark.parametrize("storage_type", ["r", "x", "U", "", "up", 5])
def test_storage_type_that_is_not_one_of_three_is_refused(storage_type):
    with pytest.raises(CorruptDeletionVectorError, match="Storage type") as refused:
        DeletionVectorDescriptor.from_json(as_json(storageType=storage_type))
    assert refused.value.error_class == PATH_ERROR
    assert str(refused.value).count(PATH_ERROR) == 1


# --- what cannot exist ------------------------------------------------------------------------------------------------


def test_extreme_numbers_of_the_protocol_are_accepted():
    descriptor = DeletionVectorDescriptor.from_json(
        as_json(offset=2**31 - 1, sizeInBytes=2**31 - 1, cardinality=2**63 - 1)
    )
    assert descriptor.cardinality == 2**63 - 1


@pytest.mark.parametrize(
    "path",
    ["", "tooShort", ENCODED_ID[:-1], ENCODED_ID[:-1] + "~", ENCODED_ID[:-1] + "é", "#" * 20],
)
def test_relative_path_without_a_sound_uuid_cannot_exist(path):
    with pytest.raises(RequestError):
        DeletionVectorDescriptor(storage_type="u", path_or_inline_dv=path, size_in_bytes=1, cardinality=1)


@pytest.mark.parametrize(
    "prefix", ["../", "..", ".", "a/b", "/", "a\\b", "a..b", "a\nb", "\x00", "\x7f", "\x85", "\ud800"]
)
def test_prefix_that_is_no_plain_directory_name_cannot_exist(prefix):
    with pytest.raises(RequestError, match="not a plain directory name"):
        relative(prefix=prefix)


def test_inline_vector_with_an_offset_cannot_exist():
    with pytest.raises(RequestError, match="no offset"):
        DeletionVectorDescriptor(storage_type="i", path_or_inline_dv="0rJua", offset=0, size_in_bytes=4, cardinality=1)


@pytest.mark.parametrize(("text", "size"), [("0rJua", 5), ("0rJu", 3), ("0rJu~", 4), ("", 1), ("#####", 4)])
def test_inline_vector_without_its_data_cannot_exist(text, size):
    with pytest.raises(RequestError):
        DeletionVectorDescriptor(storage_type="i", path_or_inline_dv=text, size_in_bytes=size, cardinality=1)


@pytest.mark.parametrize(
    "path",
    ["", "/tmp/x.bin", "x.bin", "file:x.bin", "s3://bucket", "s3://bucket/", "s3:////", "mailto:a@b", "s3://bucket/a b.bin", "s3://bucket/100%.bin",
     "s3://bucket/%zz.bin", "s3://bucket/[a].bin", "s3://bucket/%ff.bin", "s3://bucket/x.bin?y", "s3://bucket/x.bin#y",
     "s3://bucket/../x.bin", "s3://bucket/%2e%2E/x.bin", "s3://bucket/a%00b", "s3://bucket/a\nb", "1s3://bucket/x.bin",
     "s3://bucket/a%0Ab"],
)  # fmt: skip
def test_absolute_path_that_is_no_encoded_uri_cannot_exist(path):
    with pytest.raises(RequestError) as refused:
        absolute(path)
    assert refused.value.error_class == PATH_ERROR


def test_refused_uri_does_not_leak_credentials():
    with pytest.raises(CorruptDeletionVectorError) as refused:
        DeletionVectorDescriptor.from_json(as_json(storageType="p", pathOrInlineDv="s3://key:secret@bucket/100%"))
    assert "secret" not in str(refused.value)


def test_long_hostile_values_are_shortened_in_messages():
    with pytest.raises(CorruptDeletionVectorError) as refused:
        DeletionVectorDescriptor.from_json(as_json(sizeInBytes="9" * 10**6))
    assert len(str(refused.value)) < 300


# --- base64 transport form --------------------------------------------------------------------------------------------
