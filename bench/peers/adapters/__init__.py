"""How is each engine told to do the same thing?

Every module of this package has `opened(engine: Engine, scratch: Path) -> Adapter`. Only a worker imports it, so that
an engine's memory is its own.
"""
