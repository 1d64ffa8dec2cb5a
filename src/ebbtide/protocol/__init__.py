"""The words of the Delta protocol as frozen values: no I/O, no Spark, no clock."""
