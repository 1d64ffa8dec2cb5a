"""How does a command get a Spark session without Spark writing to the terminal?

A starting JVM writes warnings to the terminal it inherits, before it reads any log setting. So it inherits a temporary
file instead, which is shown only if it fails to start. A session that is already running (a test, a notebook) is used
as it is and left running.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Final

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from rich.console import Console

from ebbtide.errors import DeltaError

__all__ = ["quiet_session", "session_with_phases", "spark_session", "steady_console"]

_LOOPBACK: Final = "127.0.0.1"
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_STDOUT, _STDERR = 1, 2


@contextmanager
def spark_session(*, doing: str, verbose: bool = False) -> Iterator[SparkSession]:
    """`quiet_session` with a spinner that shows first that Spark is starting and then what is being done."""
    with (
        steady_console(_STDERR) as console,
        console.status("Starting Spark") as spinner,
        quiet_session(verbose=verbose) as session,
    ):
        spinner.update(doing)
        yield session
        spinner.update("Stopping Spark")


@contextmanager
def quiet_session(*, verbose: bool = False) -> Iterator[SparkSession]:
    """The running session, or else a new one that ends with the block.

    With `SPARK_REMOTE` set, the new one is on that Spark Connect server, otherwise it is local. `verbose` leaves
    Spark's own output on the terminal. DeltaError when Spark does not start.
    """
    with nullcontext() if verbose else _silence_python():
        running = SparkSession.getActiveSession()
        if running is not None:
            yield running
            return
        session = _start_session(verbose=verbose)
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def steady_console(descriptor: int) -> Iterator[Console]:
    """A console for stdout (1) or stderr (2) that keeps working while that stream is redirected for a starting JVM."""
    console = Console(stderr=descriptor == _STDERR, highlight=False)
    if not console.is_terminal:
        yield console
        return
    with os.fdopen(os.dup(descriptor), "w", encoding=console.encoding) as stream:
        yield Console(file=stream, highlight=False)


@contextmanager
def _silence_python() -> Iterator[None]:
    """PySpark prints errors as JSON before it raises them, and warns about the installed pandas."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for logger in loggers:
            logger.disabled = True
        try:
            yield
        finally:
            for logger, disabled in zip(loggers, before, strict=True):
                logger.disabled = disabled


def _start_session(*, verbose: bool) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as output:
        try:
            if verbose:
                return _builder().getOrCreate()
            with _output_into(output):
                return _builder().getOrCreate()
        except PySparkException as error:
            raise DeltaError(_start_failure(error, output)) from error


def _builder() -> SparkSession.Builder:
    builder: SparkSession.Builder = SparkSession.builder
    if "SPARK_REMOTE" in os.environ:
        return builder
    settings = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.sql.catalogImplementation": "in-memory",
        # As in `history`, so that times can be compared.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "ebbtide-warehouse"),  # noqa: PTH118 - a URL
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = builder.master("local[*]").appName("ebbtide")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _start_failure(error: PySparkException, output: IO[bytes]) -> str:
    output.seek(0)
    lines = [line.strip() for line in output.read().decode(errors="replace").splitlines()]
    # Warnings come first even when all is well; the first other line is the cause, and its consequences follow.
    reason = next((line for line in lines if line and not line.startswith("WARNING")), str(error))
    advice = "Install Java 17 or newer and let JAVA_HOME name it; --debug shows more."
    return f"Spark did not start: {reason.rstrip('.')}. {advice}"


@contextmanager
def _output_into(file: IO[bytes]) -> Iterator[None]:
    """Processes started inside write to `file`, for as long as they live."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(stream, os.dup(stream)) for stream in (_STDOUT, _STDERR)]
    try:
        for stream, _ in kept:
            os.dup2(file.fileno(), stream)
        yield
    finally:
        for stream, copy in kept:
            os.dup2(copy, stream)
            os.close(copy)


@contextmanager
def session_with_phases(*, verbose: bool) -> Iterator[tuple[SparkSession, Callable[[str], None]]]:
    """A session, and a spinner on the terminal that shows what is being done."""
    with (
        steady_console(_STDERR) as console,
        console.status("Starting Spark") as spinner,
        quiet_session(verbose=verbose) as spark,
    ):
        yield spark, spinner.update
