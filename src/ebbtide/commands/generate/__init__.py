"""GENERATE: manifests for readers without a log."""
