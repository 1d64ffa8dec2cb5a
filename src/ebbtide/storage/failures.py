"""What went wrong in a store, in words that a user can act on and that leak no credentials?

Translates what obstore and the operating system raise into `ebbtide.errors`. obstore's own text is useful (status and
error code of the service) and dangerous (request URLs with signatures, XML bodies that quote the access key, option
values). So it goes through a `Scrubber` first, and the original exception is never chained to ours.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote, quote_plus

import obstore.exceptions as obstore_errors

from ebbtide.errors import (
    DeltaError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    RequestError,
    StorageError,
)
from ebbtide.storage.causes import find_cause

__all__ = [
    "PutOutcomeUnknownError",
    "Scrubber",
    "call_service",
    "os_failure",
    "service_failure",
    "service_status",
    "was_put_conflict",
]

T = TypeVar("T")

# Some operations of obstore raise these builtins instead of its own classes.
SERVICE_ERRORS: Final = (obstore_errors.BaseError, OSError, ValueError)

HIDDEN: Final = "***"
MAX_DETAIL_CHARS: Final = 400

_MARKUP_BODY = re.compile(r"<[?!A-Za-z].*", re.DOTALL)
_XML_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_XML_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_CREDENTIAL_SHAPES: Final = (
    # Up to the last "@": a password may hold one, and a slash.
    (re.compile(r"(https?://)\S*@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(https?://[^\s?]*)\?\S*"), rf"\1?{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic|sharedkey)\s+[^\s,;]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b(sig|signature|x-amz-[a-z-]+|x-goog-[a-z-]+|awsaccesskeyid|token)=[^\s&,;]+"), rf"\1={HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA|AROA)[A-Z0-9]{12,}\b"), HIDDEN),
)
_NEXT_STEPS: Final = {
    errno.ENOSPC: ("no space left on device", "Free some space there, then try again."),
    errno.EDQUOT: ("disk quota exceeded", "Free some space or ask for a larger quota, then try again."),
    errno.EROFS: ("read-only file system", "Mount it for writing, or write to a copy of the table elsewhere."),
}
_RETRIED = re.compile(r"\bafter [1-9]\d* retries\b")
_STATUS = re.compile(r"\bstatus code: (\d{3})\b")
_REQUEST_TIMEOUT: Final = 408
_PUT_CONFLICT = re.compile(r"status code: 409\b.*(?:ConditionalRequestConflict|OperationAborted)", re.DOTALL)


class PutOutcomeUnknownError(StorageError):
    """A put failed in a way that leaves open whether the object now exists.

    First read the object back. Until the outcome is known, nothing that the object refers to may be deleted.
    """


class Scrubber:
    """Removes credentials from text: the given values, wherever they appear, and anything that looks like one."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in (secret, quote(secret, safe=""), quote_plus(secret))}
        # The longest first: otherwise a secret that contains another would be removed only in part.
        self._secrets = tuple(sorted((form for form in forms if len(form) > 2), key=len, reverse=True))

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for shape, replacement in _CREDENTIAL_SHAPES:
            text = shape.sub(replacement, text)
        return text

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Scrubber holds credentials, so it cannot be pickled or copied.")

    def __repr__(self) -> str:
        return f"Scrubber({len(self._secrets)} values)"


def call_service(call: Callable[[], T], failure: Callable[[Exception], DeltaError]) -> T:
    """The result of `call`. What obstore raises is translated by `failure` and raised.

    The raise is outside the handler on purpose: inside, Python would keep the original as `__context__`, and a logger
    that walks the chain would print its unscrubbed text.
    """
    try:
        return call()
    except SERVICE_ERRORS as error:
        translated = failure(error)
    raise translated


def service_failure(
    error: Exception, action: str, location: str, scrub: Scrubber, *, is_put: bool = False
) -> DeltaError:
    """Our error for one of `SERVICE_ERRORS`; `action` is a verb, `location` the object's URL."""
    cause = find_cause(str(error))
    detail = _detail(error, scrub) if cause is None else f"{cause.reason}{_service_words(error, scrub)}"
    if is_put and _may_have_landed(error) and not (cause is not None and cause.never_began):
        return PutOutcomeUnknownError(
            f"Could not learn whether {location} was written: {detail}. It may exist; read it back before retrying."
        )
    if is_put and was_put_conflict(error):
        return StorageError(f"Could not {action} {location}: other writers keep it busy. Try again.")
    if cause is not None and cause.kind is PermissionDeniedError and is_put and "AccessDenied" in str(error):
        return PermissionDeniedError(
            f"Could not {action} {location}: {detail}. Reading may be allowed there and writing not: use credentials "
            "that may write, or write to another place."
        )
    if cause is not None:
        return cause.kind(f"Could not {action} {location}: {detail}. {cause.next_step}")
    # obstore has error classes for single objects; a refused listing is generic, and only the status says why.
    match (error, service_status(error)):
        case (FileNotFoundError(), _) if is_put:
            return StorageError(f"Could not {action} {location}: {detail}. Check that the bucket or container exists.")
        case (FileNotFoundError(), _) | (obstore_errors.GenericError(), 404):
            return ObjectNotFoundError(f"Could not {action} {location}: it does not exist.")
        case (obstore_errors.AlreadyExistsError(), _):
            return ObjectExistsError(f"Could not {action} {location}: it exists already.")
        case (obstore_errors.PermissionDeniedError() | obstore_errors.UnauthenticatedError(), _) | (_, 401 | 403):
            return PermissionDeniedError(
                f"Could not {action} {location}: {detail}. Check the credentials in storage_options or the environment."
            )
        case (ValueError() | obstore_errors.InvalidPathError(), _):
            return RequestError(f"Could not {action} {location}: {detail}. Rename the object.")
        case _:
            return StorageError(f"Could not {action} {location}: {detail}. Try again, or check the endpoint.")


def service_status(error: Exception) -> int | None:
    """The HTTP status of the service's answer; None when there was no answer."""
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1])


def was_put_conflict(error: Exception) -> bool:
    """Whether S3 refused a conditional put because another request on the key was under way.

    S3 then answers 409 and asks for a retry; the object need not exist. obstore takes every 409 for "already exists".
    """
    text = str(error)
    return _PUT_CONFLICT.search(text) is not None and _RETRIED.search(text) is None


def os_failure(error: OSError, action: str, location: str, *, is_put: bool = False) -> StorageError:
    """Our error for what a system call on the local disk raised."""
    missing = isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError))
    if not is_put and (missing or error.errno == errno.ENAMETOOLONG):
        return ObjectNotFoundError(f"Could not {action} {location}: it does not exist.")
    if isinstance(error, FileExistsError):
        return ObjectExistsError(f"Could not {action} {location}: it exists already.")
    if error.errno in _NEXT_STEPS:
        reason, next_step = _NEXT_STEPS[error.errno]
        return StorageError(f"Could not {action} {location}: {reason}. {next_step}")
    reason = error.strerror or type(error).__name__
    if isinstance(error, PermissionError):
        return PermissionDeniedError(f"Could not {action} {location}: {reason}. Check the owner and mode of the path.")
    return StorageError(f"Could not {action} {location}: {reason}. Check the disk and the path.")


def _may_have_landed(error: Exception) -> bool:
    text = str(error)
    if _RETRIED.search(text):
        # An earlier try went unanswered and may have created the object, whatever the answer to the last one was.
        return True
    if isinstance(error, (obstore_errors.GenericError, obstore_errors.JoinError)):
        status = service_status(error)
        return status is None or status == _REQUEST_TIMEOUT or not 400 <= status < 500
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def _detail(error: Exception, scrub: Scrubber) -> str:
    text = str(error).split("\n\nDebug source:", 1)[0].strip()
    body = _MARKUP_BODY.search(text)
    if body is not None:
        text = text[: body.start()] + _code_and_message(body[0])
    # Scrubbed before it is cut: half a secret would not be recognised.
    return scrub(text)[:MAX_DETAIL_CHARS].rstrip(" .:") or type(error).__name__


def _service_words(error: Exception, scrub: Scrubber) -> str:
    """The code and message of the service's answer, in parentheses; empty where it said nothing."""
    body = _MARKUP_BODY.search(str(error))
    words = "" if body is None else scrub(_code_and_message(body[0]))[:MAX_DETAIL_CHARS].rstrip(" .:")
    return f" ({words})" if words else ""


def _code_and_message(body: str) -> str:
    return ": ".join(found.group(1) for found in (_XML_CODE.search(body), _XML_MESSAGE.search(body)) if found)
