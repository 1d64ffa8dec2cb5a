"""Which arguments do the commands share, and how are they read?

Values of storage options are secrets: no message here or elsewhere repeats one, not even one that is misspelt.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, TypeAlias

import typer

from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError

__all__ = [
    "AsJson",
    "StorageOption",
    "TablePath",
    "Untrusted",
    "engine_config",
    "parse_pairs",
    "parse_storage_options",
    "parse_timestamp_ms",
]

TablePath: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="PATH", show_default=False, help="The table: a directory, or a URL such as s3://bucket/t."),
]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        show_default=False,
        help="A setting of the object store, such as aws_region=eu-central-1. May be given several times.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object per line, for other programs.")]
Untrusted: TypeAlias = Annotated[
    bool, typer.Option("--untrusted", help="Refuse files and links that lead out of the table's directory.")
]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def parse_storage_options(given: list[str] | None) -> dict[str, str] | None:
    """The options as the engine takes them; the last one wins if a key is repeated."""
    return parse_pairs(given, "--storage-option", "aws_region=eu-central-1") or None


def parse_pairs(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """KEY=VALUE, as often as it is given; a message names the position, never the value."""
    pairs = {}
    for position, text in enumerate(given or (), start=1):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise RequestError(f"{option} number {position} is not KEY=VALUE. Write it like {example}.")
        pairs[key.strip()] = value
    return pairs


def engine_config(*, untrusted: bool) -> EngineConfig:
    return EngineConfig(inside_root_only=untrusted)


def parse_timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch of an ISO date or time; UTC, as `history` prints it, unless it names a zone."""
    # Python 3.10 does not know the Z.
    spelled = text[:-1] + "+00:00" if text[-1:] in {"Z", "z"} else text
    try:
        moment = dt.datetime.fromisoformat(spelled.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.timezone.utc)
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise RequestError(
            f"--timestamp {text!r} is not a time. Write it like '2026-01-31', '2026-01-31 12:00:00' or "
            "'2026-01-31T12:00:00.250+01:00'."
        ) from error
