"""Why did Spark's half fail, and what is the next step?

Takes the text of an error of classic Spark or of Spark Connect, and looks in it for the Java exceptions that it
names. What stores say is known in `storage.causes`; here is what is Spark's own: connectors, memory, disks, executors.
Nothing of the text gets into the answer, because exceptions of connectors may quote anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import PySparkException

from ebbtide.errors import DeltaError, StorageError
from ebbtide.storage.causes import find_cause

__all__ = ["find_spark_cause", "hadoop_version", "java_text"]

# The Hadoop release that each release of Spark is built with. Connectors must have the same.
_HADOOP: Final = {"4.0": "3.4.1", "4.1": "3.4.2", "4.2": "3.5.0"}
_HADOOP_JAR = re.compile(r"hadoop-client-(?:api|runtime)-(\d[\w.-]*)\.jar")
_GOOGLE_BEFORE_HADOOP_3_5: Final = "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26"
_CONNECTORS: Final = {
    "s3": ("S3", "org.apache.hadoop:hadoop-aws"),
    "azure": ("Azure", "org.apache.hadoop:hadoop-azure"),
    "gs": ("Google Cloud Storage", "org.apache.hadoop:hadoop-gcp"),
}
_MISSING_CONNECTOR: Final = tuple(
    (re.compile(rf"(?:Class (?:{classes})\S* not found|No FileSystem for scheme:? \"?(?:{schemes})\b)"), store)
    for store, classes, schemes in (
        ("s3", r"org\.apache\.hadoop\.fs\.s3", "s3[an]?"),
        ("azure", r"org\.apache\.hadoop\.fs\.azure", "abfss?|wasbs?"),
        ("gs", r"org\.apache\.hadoop\.fs\.gs|com\.google\.cloud\.hadoop", "gs"),
    )
)
_NO_SUCH_SCHEME = re.compile(r"No FileSystem for scheme:? \"?([\w.+-]+)")
_HALF_A_CONNECTOR = re.compile(r"(?:NoClassDefFoundError:|ClassNotFoundException:) (?:software|com)[/.](amazon|azure)")
_OWN_SIGNS: Final[tuple[tuple[re.Pattern[str], type[DeltaError], str, str], ...]] = tuple(
    (re.compile(signs), kind, reason, next_step)
    for signs, kind, reason, next_step in (
        (
            r"OutOfMemoryError|Java heap space|GC overhead limit exceeded|Exit code: 137\b",
            DeltaError,
            "Java ran out of memory",
            "Give it more (spark.driver.memory, spark.executor.memory), or do the work in smaller parts.",
        ),
        (
            r"No space left on device|Disk quota exceeded",
            StorageError,
            "no space is left on a disk of the driver or of an executor",
            "Free some space there, or point spark.local.dir at a larger disk.",
        ),
        (
            r"Filesystem closed|FileSystem is closed",
            StorageError,
            "something in this session closed Hadoop's file system while it was in use",
            "Try again; code that calls FileSystem.close() must open its own instance.",
        ),
        (
            r"ExecutorLostFailure|Executor heartbeat timed out|Remote RPC client disassociated",
            DeltaError,
            "executors were lost while they worked",
            "Try again. If they are lost again, look into their logs: most often their memory is too small.",
        ),
        (
            r"StatusCode\.UNAVAILABLE",
            DeltaError,
            "the Spark Connect server does not answer",
            "Check that it runs and can be reached, then make a new session.",
        ),
    )
)
# Conditions that only wrap what went wrong below them. Others say themselves what is wrong, and may quote data.
_WRAPPERS: Final = (
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE",
    "TASK_WRITE_FAILED",
    "FAILED_RENAME",
    "INTERNAL_ERROR",
    "_LEG",
)
_STACK_FRAME = re.compile(r"^\s+(?:at |\.\.\. \d)")


def find_spark_cause(error: BaseException, condition: str) -> tuple[type[DeltaError], str] | None:
    """The class of our error and its sentences; None where the error says itself what is wrong.

    `condition` is Spark's stable name of the error, empty where it has none.
    """
    if condition and (not condition.startswith(_WRAPPERS) or condition.endswith("FILE_NOT_EXIST")):
        return None
    text = java_text(error)
    for find in _FINDERS:
        if (found := find(text)) is not None:
            return found
    return None


def java_text(error: BaseException) -> str:
    """What the error says, with the causes that Spark knows of, without the frames of stacks."""
    trace = None
    if isinstance(error, PySparkException):
        # Connect has a method for it; classic Spark keeps it in an attribute, which a release may rename.
        trace = getattr(error, "getStackTrace", lambda: None)() or getattr(error, "_stackTrace", None)
    lines = [*str(error).splitlines(), *(trace if isinstance(trace, str) else "").splitlines()]
    return "\n".join(line for line in lines if not _STACK_FRAME.match(line))


def hadoop_version() -> str:
    """The Hadoop release of this Spark: from its JARs where they are installed, else from its release."""
    spec = find_spec("pyspark")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for jar in sorted(Path(place, "jars").glob("hadoop-client-*.jar")):
            if (found := _HADOOP_JAR.fullmatch(jar.name)) is not None:
                return found[1]
    release = ".".join(pyspark.__version__.split(".")[:2])
    return _HADOOP.get(release, "<the version of Spark's own Hadoop>")


def _missing_connector(text: str) -> tuple[type[DeltaError], str] | None:
    for signs, store in _MISSING_CONNECTOR:
        if signs.search(text):
            name, _ = _CONNECTORS[store]
            return StorageError, (
                f"Spark has no connector for {name}. Add {_coordinate(store)}, for example with spark.jars.packages, "
                "when the session (or the Spark Connect server) starts."
            )
    if (found := _NO_SUCH_SCHEME.search(text)) is not None:
        return StorageError, (
            f"Spark has no connector for paths that begin with '{found[1]}:'. Add the JAR of one to its class path."
        )
    if (half := _HALF_A_CONNECTOR.search(text)) is not None:
        store = "s3" if half[1] == "amazon" else "azure"
        return StorageError, (
            f"Spark has the connector for {_CONNECTORS[store][0]}, but not the libraries that it needs. Add "
            f"{_coordinate(store)} with spark.jars.packages, which brings them along."
        )
    return None


def _coordinate(store: str) -> str:
    version = hadoop_version()
    if store == "gs" and version.startswith("3.4"):
        return _GOOGLE_BEFORE_HADOOP_3_5
    return f"{_CONNECTORS[store][1]}:{version}"


def _own_cause(text: str) -> tuple[type[DeltaError], str] | None:
    for signs, kind, reason, next_step in _OWN_SIGNS:
        if signs.search(text):
            return kind, f"Spark's side failed, because {reason}. {next_step}"
    return None


def _cause_in_store(text: str) -> tuple[type[DeltaError], str] | None:
    cause = find_cause(text)
    return None if cause is None else (cause.kind, f"Spark's side failed, because {cause.reason}. {cause.next_step}")


_FINDERS: Final[tuple[Callable[[str], tuple[type[DeltaError], str] | None], ...]] = (
    _missing_connector,
    _own_cause,
    _cause_in_store,
)
