#!/bin/sh
# Runs a Python program with what PySpark needs around it: a Java it can start, and workers that run on the same Python.
#   scripts/with_spark.sh .venv/bin/python -m pytest tests/spark
set -eu

here=$(dirname "$0")
JAVA_HOME=$("$1" "$here/java_home.py")
export JAVA_HOME

# The command's own interpreter, made absolute: Spark starts its Python workers from another directory.
case $1 in
    /*) PYSPARK_PYTHON=$1 ;;
    *) PYSPARK_PYTHON=$PWD/$1 ;;
esac
export PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON="$PYSPARK_PYTHON"

# A SPARK_HOME left over from another installation would win over the one inside the virtual environment.
unset SPARK_HOME || true

exec "$@"
