"""Which of delta-spark's session settings does Ebbtide follow?

A job written for delta-spark brings its settings along. Each is one of four kinds: followed; followed only at
delta-spark's default, because that is what Ebbtide always does; harmless, because it changes no row and no file of ours
(speed, caches, catalogs, other commands); or unknown. Ebbtide warns about settings of the second kind at another value
and about unknown ones, once per setting and session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["PREFIX", "find_unfollowed"]

PREFIX: Final = "spark.databricks.delta."

_FOLLOWED: Final = frozenset(
    {
        "autoCompact.enabled",
        "autoCompact.maxFileSize",
        "autoCompact.minFileSize",
        "autoCompact.minNumFiles",
        "autoCompact.modifiedPartitionsOnly.enabled",
        "changeDataFeed.timestampOutOfRange.enabled",
        "commitInfo.userMetadata",
        "delete.deletionVectors.persistent",
        "deletionVectors.packing.targetSize",
        "dynamicPartitionOverwrite.enabled",
        "maxCommitAttempts",
        "merge.deletionVectors.persistent",
        "optimize.maxDeletedRowsRatio",
        "optimize.maxFileSize",
        "optimize.maxThreads",
        "optimize.minFileSize",
        "optimize.zorder.checkStatsCollection.enabled",
        "retentionDurationCheck.enabled",
        "restore.protocolDowngradeAllowed",
        "schema.autoMerge.enabled",
        "tableExpressions.allowedFunctions",
        "update.deletionVectors.persistent",
        "vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        "vacuum.lite.enabled",
        "vacuum.logging.enabled",
        "write.txnAppId",
        "write.txnVersion",
        "write.txnVersion.autoReset.enabled",
    }
)
_FOLLOWED_PREFIX: Final = "properties.defaults."

# delta-spark's default, which is what Ebbtide does; any other value is warned about.
_AS_BY_DEFAULT: Final = {
    "allowArbitraryProperties.enabled": "false",
    "alter.replaceColumns.safe.enabled": "true",
    "alterTable.changeColumn.checkExpressions": "true",
    "alterTable.dropColumn.enabled": "true",
    "autoCompact.nonBlindAppend.enabled": "false",
    "clone.replaceEnabled": "true",
    "clusteredTable.numClusteringColumnsLimit": "4",
    "columnMapping.reuseColumnMetadataDuringOverwrite": "true",
    "columnMapping.reuseColumnMetadataDuringReplace": "true",
    "constraints.allowUnenforcedNotNull.enabled": "false",
    "convert.metadataCheck.enabled": "true",
    "convert.partitionValues.ignoreCastFailure": "false",
    "convert.useMetadataLog": "true",
    "convertEmptyToNullForStringPartitionCol": "true",
    "createEmptySchemaTable.enabled": "true",
    "deletionVectors.disableTightBoundOnFileCreationForDevOnly": "false",
    "deltaTableBuilder.forceTablePropertyLowerCase.enabled": "false",
    "dml.insert.dfByName.allowImplicitCasts": "true",
    "generatedColumn.allowNullableIngest.enabled": "true",
    "history.metricsEnabled": "true",
    "identityColumn.allowSyncIdentityToLowerHighWaterMark.enabled": "false",
    "identityColumn.enabled": "true",
    "insert.byName.schemaEvolution.enabled": "true",
    "insert.preserveNullSourceStructs": "true",
    "legacy.storeOptionsAsProperties": "false",
    "merge.preserveNullSourceStructs": "true",
    "merge.preserveNullSourceStructs.updateStar": "true",
    "optimizeWrite.enabled": "false",
    "replace.protocolDowngradeAllowed": "false",
    "replaceWhere.constraintCheck.enabled": "true",
    "replaceWhere.dataColumns.enabled": "true",
    "replaceWhere.dataColumnsWithCDF.enabled": "true",
    "resolveMergeUpdateStructsByName.enabled": "true",
    "schema.typeCheck.enabled": "true",
    "skipRecordingEmptyCommits": "true",
    "stats.collect": "true",
    "stats.collect.using.tableSchema": "true",
    "tableFeatures.fastDropFeature.enabled": "true",
    "tableFeatures.fastDropFeature.generateDVTombstones.enabled": "true",
    "typeWidening.allowAutomaticWidening": "always",
    "updateAndMergeCastingFollowsAnsiEnabledFlag": "false",
    "vacuum.relativize.ignoreError": "false",
    # Not delta-spark's default: there RETAIN counts for nothing, unless it is 0.
    "vacuum.retentionWindowIgnore.enabled": "false",
    "variant.forceUsePreviewTableFeature": "false",
    "write.dataFilesToSubdir": "false",
    "write.utcTimestampPartitionValues": "true",
    "writeChecksumFile.enabled": "true",
}

# Prefixes of settings that change no row and no file that Ebbtide writes.
_HARMLESS: Final = (
    # how delta-spark reads the log, plans, caches and checks itself
    *("adaptiveMetadataTree.", "allFilesInCrc.", "alwaysCollectStats.", "amt.", "checkLatestSchemaOnRead", "checksum"),
    *("collectStats.", "command", "commit.", "commitLock.", "commitStats.", "commitValidation.", "delta.log."),
    *("deletionVectors.", "deltaLog.", "dmlMetricsFromMetadata.", "duplicateActionCheck.", "emptyFileCheck."),
    *("failOnPartitionValueParsingError", "includeTableIdInFileIndexComparison", "incremental.", "internalUdf"),
    *("lastCommitVersionInSession", "maxNonConflictCommitAttempts", "maxSnapshotLineageLength", "merge.analysis."),
    *("merge.failIfSourceChanged", "merge.failSource", "merge.forceSource", "merge.materialize", "merge.optimize"),
    *("merge.repartitionBeforeWrite.", "merge.skipOss", "metrics.", "normalizePartitionValuesOnRead", "nullPartition"),
    *("numRecordsValidation.", "optimizeMetadataQuery.", "postCommitHook.", "readProtocolAndMetadata"),
    *("requiredSparkConfsCheck.", "skipping.", "snapshot", "stalenessLimit", "stats.limitPushdown.", "stats.skipping"),
    *("v2.", "versionChecksum."),
    # the shape of checkpoints and checksums, which any reader reads
    *("checkpoint.", "checkpointSchema.", "checkpointV2.", "domainMetadatasInCrc.", "fileSizeHistogram"),
    *("lastCheckpoint.", "setTransactionsInCrc.", "statsAsStructInCheckpoint.", "writeChecksumFile."),
    # how its other commands do their work. Of commands that Ebbtide has, only these: one that is misspelled is unknown
    *("alterLocation.bypassSchemaCheck", "alterTable.bypassCharVarcharToStringFix", "autoCompact.earlySkipPartition"),
    *("autoCompact.maxNumModified", "autoCompact.maxTablePartition", "autoCompact.partitionStatsSize"),
    *("autoCompact.recordPartitionStats.", "autoCompact.reservePartitions.", "changeColumn.checkDependentExpressions"),
    *("changeColumn.renameColumnEscapeName", "clone.iceberg.", "convert.iceberg.", "convert.useCatalog", "liquid."),
    *("optimize.clustering.", "optimize.conditionalIncrementMetric.", "optimize.repartition.enabled"),
    *("optimize.zorder.fastInterleaveBits.", "tableFeatures.allowMetadataCleanup", "tableFeatures.dev."),
    *("tableFeatures.fastDropFeature.alwaysValidate", "tableFeatures.fastDropFeature.dvTombstone"),
    *("tableFeatures.testFeatures.", "vacuum.enforceDeletedFileAndLogRetention", "vacuum.parallelDelete."),
    # commands, features and services that Ebbtide does not have
    *("backfill.", "catalog.", "changelogV2.", "commitMetrics.", "coordinatedCommits.", "dummyFileManager."),
    *("enableTableRedirect", "geo.", "history.", "hms.", "hudi.", "iceberg.", "import.", "optimizeWrite."),
    *("replaceOn.", "replaceUsing.", "rowTracking.", "skipRedirect", "streaming.", "timeTravel.", "uniform."),
    "conflictDetection.",
)


def find_unfollowed(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings that ask for something Ebbtide does not do, each with a sentence for the user."""
    for name, value in settings.items():
        short = name.removeprefix(PREFIX)
        if short in _FOLLOWED or short.startswith(_FOLLOWED_PREFIX):
            continue
        default = _AS_BY_DEFAULT.get(short)
        if default is not None and value.strip().lower() != default:
            wrong = f"does not follow the session setting {name} = '{value[:80]}': it works as with '{default}'"
            yield name, f"Ebbtide {wrong}. Unset it, or change the table with an engine that follows it."
        elif default is None and not short.startswith(_HARMLESS):
            wrong = f"does not know the session setting {name}, so it has no effect here"
            yield name, f"Ebbtide {wrong}. Check its spelling, or unset it."
