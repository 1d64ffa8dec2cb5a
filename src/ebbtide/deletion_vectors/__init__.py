"""Which rows of a data file are gone, and how is that written down and read back safely?"""

from ebbtide.deletion_vectors.bitmap import MAX_ROW_INDEX, RowIndexSet
from ebbtide.deletion_vectors.store import load, load_all
from ebbtide.deletion_vectors.writer import DeletionVectorResult, NewMarks, write_deletion_vectors

__all__ = [
    "MAX_ROW_INDEX",
    "DeletionVectorResult",
    "NewMarks",
    "RowIndexSet",
    "load",
    "load_all",
    "write_deletion_vectors",
]
