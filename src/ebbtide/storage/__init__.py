"""Where are a table's bytes, and how are they listed, read and put there exactly once?

`open_store` turns a URL into an `ObjectStore`; nothing above this room knows which kind it got.
"""

from ebbtide.storage.failures import PutOutcomeUnknownError
from ebbtide.storage.open import open_store
from ebbtide.storage.store import ObjectMeta, ObjectStore, is_local

__all__ = ["ObjectMeta", "ObjectStore", "PutOutcomeUnknownError", "is_local", "open_store"]
