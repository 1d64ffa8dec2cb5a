"""What of an adapter is left for an engine that only reads? Commands are refused."""

from __future__ import annotations

from typing import Any

__all__ = ["ReadOnly"]


class ReadOnly:
    """The commands that the workloads never send to a reader."""

    def delete(self, path: str, where: str) -> None:
        raise NotImplementedError(f"it only reads: {path} {where}")

    def update(self, path: str, assignments: dict[str, str], where: str) -> None:
        raise NotImplementedError(f"it only reads: {path} {assignments} {where}")

    def merge(self, path: str, source: str) -> None:
        raise NotImplementedError(f"it only reads: {path} {source}")

    def open(self, path: str) -> int | None:
        raise NotImplementedError(f"it is not asked to: {path}")

    def optimize(self, path: str, zorder: list[str]) -> None:
        raise NotImplementedError(f"it only reads: {path} {zorder}")

    def purge(self, path: str) -> None:
        raise NotImplementedError(f"it only reads: {path}")

    def vacuum(self, path: str, options: dict[str, str] | None) -> None:
        raise NotImplementedError(f"it only reads: {path} {options}")

    def restore(self, path: str, version: int, options: dict[str, str] | None) -> None:
        raise NotImplementedError(f"it only reads: {path} {version} {options}")

    def jobs(self) -> int | None:
        return None

    def is_conflict(self, error: Exception) -> bool:
        del error
        return False

    def close(self) -> None:
        pass

    def query(self, path: str, select: list[str], where: str | None) -> list[Any]:
        raise NotImplementedError
