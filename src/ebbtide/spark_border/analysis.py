"""How is Spark's analyser asked without side effects?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["analyse", "asking_the_analyser"]

# One entry per block that is asking the analyser now, and whether its loggers were disabled before the first.
_asking_lock = Lock()
_asking: list[bool] = []
_was_disabled: dict[str, bool] = {}


def analyse(frame: DataFrame) -> None:
    """Let Spark's analyser look at the frame now, and raise what is wrong with it.

    Connect is lazy. The frame's own schema is not enough: on Connect a filter reuses a schema that is already known.
    """
    assert frame.select(F.lit(1)).schema is not None


@contextmanager
def asking_the_analyser() -> Iterator[None]:
    """For questions whose answer may be an exception, which classic PySpark would log with its stack trace."""
    # Several threads may ask at once: the first one mutes the loggers, the last one restores them.
    loggers = _analyser_loggers()
    with _asking_lock:
        if not _asking:
            for logger in loggers:
                _was_disabled[logger.name] = logger.disabled
                logger.disabled = True
        _asking.append(True)
    try:
        yield
    finally:
        with _asking_lock:
            _asking.pop()
            if not _asking:
                for logger in loggers:
                    logger.disabled = _was_disabled[logger.name]


def _analyser_loggers() -> list[PySparkLogger]:
    # PySpark's own factory must make them: if `logging` made them first, PySpark's calls on them would fail. The first
    # is for SQL text, the second for columns.
    return [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
