"""How does a test get a Spark session, classic or Connect, with the same settings?

One pytest process holds one session, chosen by `--spark=classic` (the default) or `--spark=connect`. A process decides
once: PySpark's functions look at process-wide state to know which kind of column to build, so two kinds of session in one
process would test a mixture that no user has. The tests are the same for both; the second run is a second process.

A third kind, `reference`, is a classic session that has delta-spark in it: there `spark.sql` is the reference engine, and
Ebbtide works beside it. `make reference` fetches the JARs.

The Connect server runs in a process of its own. PySpark could start one inside ours (`remote("local[2]")`), but then a
JVM gateway would be at hand, and code that reached for it would pass here and fail at a user's.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Literal, get_args

import pyspark
from tests.support.reference_session import delta_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SESSION_KINDS", "SessionKind", "open_session"]

SessionKind = Literal["classic", "connect", "reference"]
SESSION_KINDS: tuple[SessionKind, ...] = get_args(SessionKind)

MASTER = "local[2]"
DRIVER_MEMORY = "2g"
# A test is over before the optimising compiler has paid for itself, and one thread collects what little garbage there is.
# Without that compiler Java keeps room for 48 MB of compiled code. A suite fills it, and then Java throws code away and
# compiles it again, for a tenth of the time.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SERVER_START_SECONDS = 120
LOOPBACK = "127.0.0.1"
# Compiling a plan takes longer than running it over a few rows. The classic session compiles, as users' sessions do; the
# Connect one evaluates the same expressions without that, so both of Spark's ways are tried.
CONNECT_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
REFERENCE_SETTINGS = {
    # Tiny tables: fifty tasks to replay four commits would be most of the time.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Tables are also written behind its back, by Ebbtide.
    "spark.databricks.delta.stalenessLimit": "0",
}


@contextmanager
def open_session(
    kind: SessionKind, scratch_directory: Path, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A session of the given kind, with `more` settings; whatever Spark leaves on disk goes below `scratch_directory`."""
    openers = {"classic": _classic_session, "connect": _connect_session, "reference": _reference_session}
    with openers[kind](scratch_directory, more) as session:
        yield session


def _settings(scratch_directory: Path) -> dict[str, str]:
    """What both kinds of session share: small, quiet, on the loopback only, and in UTC."""
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.driver.host": LOOPBACK,
        "spark.local.dir": str(scratch_directory / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch_directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _environment() -> dict[str, str]:
    """What Spark reads from the environment: no look-up of our host name, our interpreter for Python workers."""
    return {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


@contextmanager
def _reference_session(scratch_directory: Path, more: Mapping[str, str]) -> Iterator[SparkSession]:
    with _classic_session(scratch_directory, delta_spark() | REFERENCE_SETTINGS | dict(more)) as session:
        yield session


@contextmanager
def _classic_session(scratch_directory: Path, more: Mapping[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.update(_environment())
    builder = SparkSession.builder.master(MASTER).appName("ebbtide-tests")
    # Read before the JVM exists, hence not too late here; a running session would ignore it.
    builder = builder.config("spark.driver.memory", DRIVER_MEMORY)
    for name, value in (_settings(scratch_directory) | dict(more)).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _connect_session(scratch_directory: Path, more: Mapping[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    with _connect_server(scratch_directory, more) as url:
        session = SparkSession.builder.remote(url).getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _connect_server(scratch_directory: Path, more: Mapping[str, str]) -> Iterator[str]:
    """Start a Connect server on a free port of the loopback and yield its `sc://` address."""
    port = _free_port()
    settings = (
        _settings(scratch_directory)
        | CONNECT_SETTINGS
        | dict(more)
        | {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
        }
    )
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--class", SERVER_CLASS, "--master", MASTER]
    command += ["--driver-memory", DRIVER_MEMORY]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    scratch_directory.mkdir(parents=True, exist_ok=True)
    log_file = scratch_directory / "connect-server.log"
    with log_file.open("wb") as log, _process([*command, "spark-internal"], home, scratch_directory, log) as server:
        _wait_until_ready(port, server, log_file)
        yield f"sc://{LOOPBACK}:{port}"


@contextmanager
def _process(command: list[str], home: Path, directory: Path, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | _environment() | {"SPARK_HOME": str(home)}
    server = subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield server
    finally:
        server.terminate()
        server.wait(timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(port: int, server: subprocess.Popen[bytes], log_file: Path) -> None:
    import grpc

    channel = grpc.insecure_channel(f"{LOOPBACK}:{port}")
    try:
        grpc.channel_ready_future(channel).result(timeout=SERVER_START_SECONDS)
    except grpc.FutureTimeoutError:
        state = f"ended with {server.returncode}" if server.poll() is not None else "still starting"
        log = log_file.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"the Spark Connect server is not ready ({state}); its log ends with:\n{log}") from None
    finally:
        channel.close()
