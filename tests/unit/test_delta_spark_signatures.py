"""Can a call that was written for delta-spark be made here, argument for argument?

The table holds what `delta/tables.py` of delta-spark 4.4 declares: names, order and defaults. What we add comes after,
and by keyword alone, so that it can never be taken for one of delta-spark's.
"""

from __future__ import annotations

import inspect

import pytest

from ebbtide import DeltaTable, IdentityGenerator
from ebbtide.merge_builder import DeltaMergeBuilder
from ebbtide.table_builder import DeltaTableBuilder
from ebbtide.table_maintenance import DeltaOptimizeBuilder

REQUIRED = inspect.Parameter.empty
CLONE = {"isShallow": False, "replace": False, "properties": None}

DELTA_SPARK = {
    DeltaTable: {
        "toDF": {},
        "alias": {"aliasName": REQUIRED},
        "delete": {"condition": None},
        "update": {"condition": None, "set": None},
        "merge": {"source": REQUIRED, "condition": REQUIRED},
        "history": {"limit": None},
        "detail": {},
        "vacuum": {"retentionHours": None},
        "forPath": {"sparkSession": REQUIRED, "path": REQUIRED, "hadoopConf": {}},
        "create": {"sparkSession": None},
        "createIfNotExists": {"sparkSession": None},
        "replace": {"sparkSession": None},
        "createOrReplace": {"sparkSession": None},
        "isDeltaTable": {"sparkSession": REQUIRED, "identifier": REQUIRED},
        "addFeatureSupport": {"featureName": REQUIRED},
        "upgradeTableProtocol": {"readerVersion": REQUIRED, "writerVersion": REQUIRED},
        "dropFeatureSupport": {"featureName": REQUIRED, "truncateHistory": None},
        "optimize": {},
        "restoreToVersion": {"version": REQUIRED},
        "restoreToTimestamp": {"timestamp": REQUIRED},
        "convertToDelta": {"sparkSession": REQUIRED, "identifier": REQUIRED, "partitionSchema": None},
        "generate": {"mode": REQUIRED},
        "clone": {"target": REQUIRED, **CLONE},
        "cloneAtVersion": {"version": REQUIRED, "target": REQUIRED, **CLONE},
        "cloneAtTimestamp": {"timestamp": REQUIRED, "target": REQUIRED, **CLONE},
    },
    DeltaOptimizeBuilder: {
        "where": {"partitionFilter": REQUIRED},
        "executeCompaction": {},
        "executeZOrderBy": {"cols": REQUIRED},
    },
    DeltaMergeBuilder: {
        "whenMatchedUpdate": {"condition": None, "set": None},
        "whenMatchedUpdateAll": {"condition": None},
        "whenMatchedDelete": {"condition": None},
        "whenNotMatchedInsert": {"condition": None, "values": None},
        "whenNotMatchedInsertAll": {"condition": None},
        "whenNotMatchedBySourceUpdate": {"condition": None, "set": None},
        "whenNotMatchedBySourceDelete": {"condition": None},
        "withSchemaEvolution": {},
        "execute": {},
    },
    DeltaTableBuilder: {
        "location": {"location": REQUIRED},
        "comment": {"comment": REQUIRED},
        "addColumn": {
            "colName": REQUIRED,
            "dataType": REQUIRED,
            "nullable": True,
            "generatedAlwaysAs": None,
            "generatedByDefaultAs": None,
            "comment": None,
        },
        "addColumns": {"cols": REQUIRED},
        "partitionedBy": {"cols": REQUIRED},
        "clusterBy": {"cols": REQUIRED},
        "property": {"key": REQUIRED, "value": REQUIRED},
        "execute": {},
    },
}
# What delta-spark does not have, and what it has and we do not yet.
OURS = {
    *("checkpoint", "clean_log", "compact_log", "count", "delete_matching", "drop", "files", "fsck"),
    *("maintain", "purge", "to_request", "url", "version"),
}
DELTA_SPARK_ALONE = {"forName", "tableName"}


def without_empty(default):
    """`hadoopConf` is an empty dict there and None here: neither says anything."""
    return None if default == {} else default


@pytest.mark.parametrize(
    ("owner", "method"),
    [(owner, method) for owner, methods in DELTA_SPARK.items() for method in methods],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_positional_parameters_are_those_of_delta_spark(owner, method):
    parameters = inspect.signature(getattr(owner, method)).parameters.values()
    positional = {
        parameter.name: without_empty(parameter.default)
        for parameter in parameters
        if parameter.name != "self"
        and parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}
    }
    expected = {name: without_empty(default) for name, default in DELTA_SPARK[owner][method].items()}
    assert list(positional.items()) == list(expected.items())


def test_generator_of_numbers_is_made_as_in_delta_spark():
    assert list(inspect.signature(IdentityGenerator).parameters) == ["start", "step"]
    assert IdentityGenerator() == IdentityGenerator(start=1, step=1)


@pytest.mark.parametrize("owner", DELTA_SPARK, ids=lambda owner: owner.__name__)
def test_every_public_method_is_delta_sparks_or_known_to_be_ours(owner):
    public = {name for name, _ in inspect.getmembers(owner) if not name.startswith("_")}
    assert public - OURS == set(DELTA_SPARK[owner])
    assert not public & DELTA_SPARK_ALONE, "delta-spark has this method too: add its parameters to the table"
