"""How is Spark's analyser asked without side effects?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["analyse", "asking_the_analyser"]

# How many ask the analyser just now, and whether its loggers were disabled before the first of them.
_asking_lock = Lock()
_asking: list[bool] = []
_was_disabled: dict[str, bool] = {}


def analyse(frame: DataFrame) -> None:
    """Let Spark's analyser look at the frame now, and raise what is wrong with it.

    Connect is lazy. Asking the frame itself is not enough: a filter there takes over a schema that is known already.
    """
    assert frame.select(F.lit(1)).schema is not None


@contextmanager
def asking_the_analyser() -> Iterator[None]:
    """For questions whose answer may be an exception, which classic PySpark would log with its whole stack trace."""
    # Several threads may ask at once: the first mutes, the last puts back.
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
    # Made by PySpark's own factory: were they first made by `logging`, PySpark's calls on them would fail. The first is
    # for SQL text, the second for columns.
    return [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
