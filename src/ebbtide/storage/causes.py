"""What is behind the failure of an object store, and what is the next step?

Takes the text of a failure, ours or that of Spark's connectors: the services' codes and the words of HTTP clients are
the same on both sides. Gives a `Cause`, or None where the text names none. Nothing of the text gets into the answer
except the name of a region, so it cannot carry a credential.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from ebbtide.errors import PermissionDeniedError, StorageError

__all__ = ["Cause", "find_cause", "no_credentials"]

_PLACES: Final = "storage_options, the session's fs.* settings or the environment"


@dataclass(frozen=True, slots=True)
class Cause:
    """`reason` is a clause without a full stop, `next_step` a sentence."""

    kind: type[StorageError]
    reason: str
    next_step: str
    # The service was not asked to do anything, so nothing was done.
    never_began: bool = False


_WRONG_REGION: Final = Cause(
    StorageError,
    "the bucket is in another region",
    "Correct the region: the storage option 'aws_region', or fs.s3a.endpoint.region.",
    never_began=True,
)
_NO_CREDENTIALS: Final = Cause(
    PermissionDeniedError, "no credentials were found", f"Give them in {_PLACES}.", never_began=True
)
# The first that fits is taken, so what a service says comes before what its status alone means.
_SIGNS: Final = tuple(
    (re.compile(signs), cause)
    for signs, cause in (
        (
            r"ExpiredToken|TokenRefreshRequired|token has expired",
            Cause(
                PermissionDeniedError, "the session token has expired", f"Renew the temporary credentials in {_PLACES}."
            ),
        ),
        (
            r"RequestTimeTooSkewed|difference between the request time and the (?:current|server)",
            Cause(
                PermissionDeniedError,
                "the clock of this machine differs too much from the service's",
                "Set the clock, best by NTP, then try again.",
            ),
        ),
        (
            (
                r"NoSuchBucket|UnknownStoreException|ContainerNotFound|FilesystemNotFound"
                r"|The specified (?:bucket|container|filesystem) does not exist"
            ),
            Cause(
                StorageError, "the bucket or container does not exist", "Create it, or correct its name in the path."
            ),
        ),
        (
            (
                r"PermanentRedirect|AuthorizationHeaderMalformed|AWSRedirectException|IllegalLocationConstraint"
                r"|redirect without LOCATION"
            ),
            _WRONG_REGION,
        ),
        (
            (
                r"NoAuthWithAWSException|No AWS Credentials provided|Unable to load (?:AWS )?credentials"
                r"|169\.254\.169\.254|metadata\.google\.internal"
            ),
            _NO_CREDENTIALS,
        ),
        (
            r"SignatureDoesNotMatch",
            Cause(
                PermissionDeniedError, "the secret key is not the one of this access key", f"Correct it in {_PLACES}."
            ),
        ),
        (
            r"InvalidAccessKeyId|InvalidToken|InvalidClientTokenId",
            Cause(
                PermissionDeniedError,
                "the service does not know the access key or session token",
                f"Correct it in {_PLACES}, and check that the endpoint is the right one.",
            ),
        ),
        (
            r"BadScheme|HTTP error: builder error",
            Cause(
                StorageError,
                "the endpoint is a plain http:// address, and those are refused unless they are allowed",
                "Set the storage option 'allow_http' to 'true' (or AWS_ALLOW_HTTP=true), or use https://.",
                never_began=True,
            ),
        ),
        (
            r"UnknownHostException|dns error|failed to lookup address",
            Cause(
                StorageError,
                "the name of the host could not be resolved",
                "Check the endpoint, the bucket's name and the DNS of this machine.",
            ),
        ),
        (
            r"Unsupported or unrecognized SSL message|plaintext connection|InvalidContentType",
            Cause(
                StorageError,
                "TLS was spoken to an endpoint that speaks plain HTTP",
                "Write the endpoint as http://, with 'allow_http' (for Spark: fs.s3a.connection.ssl.enabled=false).",
            ),
        ),
        (
            r"SSLHandshakeException|SSLPeerUnverifiedException|InvalidCertificate|UnknownIssuer",
            Cause(
                StorageError,
                "the certificate of the endpoint is not trusted",
                "Check the endpoint, or add its certificate to those that this machine and Spark's Java trust.",
            ),
        ),
        (
            r"Connection refused|ConnectionRefused|HttpHostConnectException",
            Cause(StorageError, "the endpoint refused the connection", "Check its address and port, and that it runs."),
        ),
        (
            (
                r"SocketTimeoutException|ConnectTimeoutException|ApiCallTimeoutException|[Tt]imed out|TimedOut"
                r"|kind: Timeout"
            ),
            Cause(
                StorageError,
                "the service did not answer in time",
                "Check the endpoint, proxy and firewall, or allow more time ('timeout', 'connect_timeout').",
            ),
        ),
        (
            r"AccessDenied|Status Code: 40[13]\b|Authorization(?:PermissionMismatch|Failure)|AuthenticationFailed",
            Cause(
                PermissionDeniedError,
                "the service denied access",
                f"Check the credentials in {_PLACES}, the permissions that they give there, and this machine's clock.",
            ),
        ),
        (
            r"AWSBadRequestException",
            Cause(
                StorageError,
                "the service called the request bad and did not say why (400)",
                "Most often the region is wrong or a session token has expired: check both.",
            ),
        ),
    )
)
_REGION = re.compile(r"(?:expecting '|response to region \[)([a-z]{2}(?:-[a-z]+)+-\d)['\]]")


def find_cause(text: str) -> Cause | None:
    cause = next((cause for signs, cause in _SIGNS if signs.search(text)), None)
    if cause is _WRONG_REGION and (named := _REGION.search(text)) is not None:
        return replace(cause, reason=f"the bucket is in another region, {named[1]}")
    return cause


def no_credentials(url: str) -> PermissionDeniedError:
    """For a store that would be asked without any: found out before a request is made."""
    return PermissionDeniedError(f"No credentials found for {url}. {_NO_CREDENTIALS.next_step}")
