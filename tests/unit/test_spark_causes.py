"""Is the cause found in what Spark raises? Most texts were provoked on Spark 4.2 with hadoop-aws 3.5 and cut short.

Written from memory, not provoked: a scheme without a file system, half a connector, a full disk, a closed file
system, a lost executor.
"""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from ebbtide import spark_border as border
from ebbtide.errors import DeltaError, PermissionDeniedError, RequestError, StorageError
from ebbtide.spark_border import causes

FRAMES = "\n\tat org.apache.hadoop.fs.FileSystem.get(FileSystem.java:558)\n\t... 103 more"
S3 = "software.amazon.awssdk.services.s3.model.S3Exception"
STATUS = "getFileStatus on s3a://bkt1/t: "

SPARK_TEXTS = [
    (
        "java.lang.RuntimeException",
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        StorageError,
        "Spark has no connector for S3. Add org.apache.hadoop:hadoop-aws:",
    ),
    (
        "java.lang.RuntimeException",
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found",
        StorageError,
        "Spark has no connector for Azure. Add org.apache.hadoop:hadoop-azure:",
    ),
    (
        "java.lang.RuntimeException",
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found",
        StorageError,
        "Spark has no connector for Google Cloud Storage. Add ",
    ),
    (
        "org.apache.hadoop.fs.UnsupportedFileSystemException",
        'No FileSystem for scheme "gs"',
        StorageError,
        "Spark has no connector for Google Cloud Storage",
    ),
    (
        "org.apache.hadoop.fs.UnsupportedFileSystemException",
        'No FileSystem for scheme "oss"',
        StorageError,
        "paths that begin with 'oss:'",
    ),
    (
        "java.lang.NoClassDefFoundError",
        (
            "software/amazon/awssdk/core/exception/SdkException\nCaused by: java.lang.ClassNotFoundException: "
            "software.amazon.awssdk.core.exception.SdkException"
        ),
        StorageError,
        "but not the libraries that it needs",
    ),
    (
        "org.apache.hadoop.fs.s3a.UnknownStoreException",
        "`s3a://nobkt/t': " + STATUS + "software.amazon.awssdk.services.s3.model.NoSuchBucketException: The specified "
        "bucket does not exist (Service: S3, Status Code: 404, Request ID: WmWW) (SDK Attempt Count: 1):NoSuchBucket",
        StorageError,
        "the bucket or container does not exist",
    ),
    (
        "javax.net.ssl.SSLException",
        STATUS + "Unable to execute HTTP request: Unsupported or unrecognized SSL message (SDK Attempt Count: 2)",
        StorageError,
        "TLS was spoken to an endpoint that speaks plain HTTP",
    ),
    (
        "java.net.UnknownHostException",
        STATUS + "software.amazon.awssdk.core.exception.SdkClientException: Received an UnknownHostException",
        StorageError,
        "the name of the host could not be resolved",
    ),
    (
        "java.net.ConnectException",
        STATUS + "Unable to execute HTTP request: Connect to 127.0.0.1:1 [/127.0.0.1] failed: Connection refused",
        StorageError,
        "refused the connection",
    ),
    (
        "java.net.SocketTimeoutException",
        STATUS + "Unable to execute HTTP request: Read timed out (SDK Attempt Count: 2)",
        StorageError,
        "did not answer in time",
    ),
    (
        "java.nio.file.AccessDeniedException",
        (
            "s3a://bkt1/t: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided by "
            "EnvironmentVariableCredentialsProvider"
        ),
        PermissionDeniedError,
        "no credentials were found",
    ),
    (
        "org.apache.hadoop.fs.s3a.AWSRedirectException",
        (
            "Received permanent redirect response to region [eu-west-1].  This likely indicates that the S3 region "
            "configured in fs.s3a.endpoint.region does not match (Service: S3, Status Code: 301, Request ID: null)"
        ),
        StorageError,
        "the bucket is in another region, eu-west-1",
    ),
    (
        "org.apache.hadoop.fs.s3a.AWSBadRequestException",
        f"{STATUS}{S3}: Bad Request (Service: S3, Status Code: 400, Request ID: null):null",
        StorageError,
        "Most often the region is wrong or a session token has expired",
    ),
    (
        "org.apache.hadoop.fs.s3a.AWSBadRequestException",
        f"listObjects() on s3a://bkt1/t: {S3}: The provided token has expired. (Service: S3, Status Code: 400):ExpiredToken",
        PermissionDeniedError,
        "the session token has expired",
    ),
    (
        "java.nio.file.AccessDeniedException",
        f"s3a://bkt1/t: listObjects() on s3a://bkt1/t: {S3}: x (Service: S3, Status Code: 403):RequestTimeTooSkewed",
        PermissionDeniedError,
        "the clock of this machine",
    ),
    (
        "java.nio.file.AccessDeniedException",
        f"s3a://bkt1/t: {STATUS}{S3}: Forbidden (Service: S3, Status Code: 403, Request ID: null):null",
        PermissionDeniedError,
        "the service denied access",
    ),
    (
        "java.nio.file.AccessDeniedException",
        f"s3a://bkt1/t: listObjects() on s3a://bkt1/t: {S3}: sig (Service: S3, Status Code: 403):SignatureDoesNotMatch",
        PermissionDeniedError,
        "the secret key is not the one of this access key",
    ),
    ("java.lang.OutOfMemoryError", "Java heap space", DeltaError, "Java ran out of memory"),
    ("java.io.IOException", "No space left on device", StorageError, "no space is left on a disk"),
    ("java.io.IOException", "Filesystem closed", StorageError, "closed Hadoop's file system"),
    (
        "org.apache.spark.SparkException",
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
            "stage 1.0 (TID 4) (127.0.0.1 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the tasks)"
        ),
        DeltaError,
        "executors were lost",
    ),
]


def of_classic(java_class, message):
    class Raised(Py4JJavaError):
        def __init__(self):
            Exception.__init__(self)

        def __str__(self):
            return f"An error occurred while calling o44.parquet.\n: {java_class}: {message}{FRAMES}"

    return Raised()


def of_connect(java_class, message, condition=None):
    class Raised(PySparkException):
        def __init__(self):
            Exception.__init__(self)

        def getCondition(self):
            return condition

        def getMessageParameters(self):
            return None

        def __str__(self):
            return f"({java_class}) {message}\n\nJVM stacktrace:\n{java_class}{FRAMES}"

    return Raised()


@pytest.mark.parametrize("raised", [of_classic, of_connect])
@pytest.mark.parametrize(("java_class", "message", "kind", "sentence"), SPARK_TEXTS)
def test_cause_in_the_text_of_java_becomes_a_sentence_with_a_next_step(raised, java_class, message, kind, sentence):
    with pytest.raises(DeltaError) as caught, border.spark_errors("testing"):
        raise raised(java_class, message)
    assert type(caught.value) is kind
    told = str(caught.value)
    assert told.startswith("While testing: Spark")
    assert sentence in told
    assert told.endswith(".")
    assert "\n" not in told


def test_heap_that_a_connect_server_lost_is_known_by_the_status_alone():
    text = '<_MultiThreadedRendezvous of RPC that terminated with:\n\tdetails = "Java heap space"\n>'
    error = of_connect("x", text)
    with pytest.raises(DeltaError, match="Java ran out of memory"), border.spark_errors("testing"):
        raise error


def test_cause_below_a_file_that_could_not_be_read_is_found_in_the_trace():
    error = of_connect("org.apache.spark.SparkException", "Encountered error", "FAILED_READ_FILE.NO_HINT")
    error.getStackTrace = lambda: "x\nCaused by: java.nio.file.AccessDeniedException: s3a://b/t: (Status Code: 403)"
    with pytest.raises(PermissionDeniedError, match="denied access"), border.spark_errors("testing"):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        of_connect("x", "The value 'Java heap space' cannot be cast", "CAST_INVALID_INPUT"),
        of_classic("x.SparkException", "[CAST_INVALID_INPUT] The value 'No space left on device' cannot be cast"),
    ],
)
def test_error_that_says_itself_what_is_wrong_is_not_searched_for_causes(error):
    with pytest.raises(RequestError, match="cannot be cast"), border.spark_errors("testing"):
        raise error


def test_name_of_a_column_is_not_taken_for_a_cause():
    class Raised(AnalysisException):
        def __init__(self):
            Exception.__init__(self)

        def getCondition(self):
            return None

        def getMessageParameters(self):
            return None

        def __str__(self):
            return "there is no column AccessDenied"

    with pytest.raises(RequestError, match="there is no column AccessDenied"), border.spark_errors("testing"):
        raise Raised


def test_frames_of_the_stack_are_not_searched():
    assert "FileSystem.java" not in causes.java_text(of_classic("java.lang.RuntimeException", "x"))


def test_version_of_hadoop_is_that_of_the_installed_jars(monkeypatch, tmp_path):
    installed = causes.hadoop_version()
    assert installed == causes._HADOOP[".".join(causes.pyspark.__version__.split(".")[:2])]
    # A client without JARs asks the table.
    monkeypatch.setattr(causes, "find_spec", lambda name: None)
    assert causes.hadoop_version() == installed
    monkeypatch.setattr(causes.pyspark, "__version__", "4.1.3")
    assert causes.hadoop_version() == "3.4.2"
    assert causes._coordinate("gs").startswith("com.google.cloud.bigdataoss:gcs-connector:")
