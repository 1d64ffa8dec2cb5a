"""Is every member of the reference's three documents mapped to code that exists and to a test that exists?

The list of members stands here, because the documents do not lie beside a clone.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference-map.md"
ROW = re.compile(r"\| `(?P<member>[^`]+)` \| `(?P<here>[^`]+)` \| (?P<caller>[^|]+) \| `(?P<test>[^`]+)` \| .*\|")

MEMBERS = {
    "DeletionVectorDescriptor": (
        "storageType PATH_DV_MARKER INLINE_DV_MARKER UUID_DV_MARKER pathOrInlineDv offset sizeInBytes cardinality "
        "maxRowIndex EMPTY onDiskWithRelativePath encodeUUID inlineInLog encodeData onDiskWithAbsolutePath "
        "copyWithAbsolutePath absolutePath assembleDeletionVectorPath isOnDisk isInline inlineData"
    ).split(),
    "DMLWithDeletionVectorsHelper": (
        "createTargetDfForScanningForMatches replaceFileIndex LogicalRelation Project __delta_internal_row_index "
        "_metadata findTouchedFiles findFilesWithMatchingRows processUnmodifiedData numModifiedRows numRemovedFiles "
        "numDeletionVectorsAdded numDeletionVectorsRemoved numDeletionVectorsUpdated "
        "TouchedFileWithDV.isFullyReplaced TouchedFileWithDV.numberOfModifiedRows DeletionVectorResult"
    ).split(),
    "DeleteCommand": [
        *(
            "tahoeFileIndex target condition PreprocessTableDelete DeltaDelete apply LeafRunnableCommand DeltaCommand "
            "metrics createMetrics run assertRemovable withNewTransaction recacheByPlan performDelete"
        ).split(),
        "Number of Table Files",
        "Finding Delete Actions",
        "Delete Condition Undefined",
        "Metadata-Only Delete Condition",
        "Other Delete Conditions",
        "Delete Actions Available",
        "rewriteFiles",
        "numTouchedRows",
        "_change_type",
        "shouldWritePersistentDeletionVectors",
        "spark.databricks.delta.delete.deletionVectors.persistent",
    ],
}


@cache
def sections():
    """The rows of each section of the page: member, place, caller and test."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {part.splitlines()[0]: [found.groups() for found in ROW.finditer(part)] for part in parts}


def column(number):
    return sorted({row[number] for rows in sections().values() for row in rows})


@cache
def functions_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("document", MEMBERS)
def test_every_member_of_the_document_is_mapped_once(document):
    assert [row[0] for row in sections()[document]] == MEMBERS[document]


def test_every_table_line_is_understood():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(lines) == sum(map(len, MEMBERS.values()))
    assert all(ROW.fullmatch(line) for line in lines)


@pytest.mark.parametrize("place", column(1))
def test_named_place_can_be_imported(place):
    module, _, attribute = place.partition(":")
    found = importlib.import_module(module)
    for name in attribute.split("."):
        # A field without a default is known to the class by its annotation alone, unless the class has slots.
        found = getattr(found, name) if hasattr(found, name) else found.__dataclass_fields__[name]
    assert module.startswith("ebbtide.")


@pytest.mark.parametrize("test", column(3))
def test_named_test_exists(test):
    path, _, name = test.partition("::")
    assert name.startswith("test_")
    assert name in functions_in(path)
