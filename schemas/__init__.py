"""Tables and vocabularies of a build: the contract between stages, library and readers.

`schemas.TABLES` maps names to declarations. It is loaded on first use, so that `schemas.enums` alone stays
importable without Arrow.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemas.registry import TABLES

SCHEMA_VERSION = "1.0.0"
"""Patch: the same data is read; minor: fields were added; major: existing data changed."""

__all__ = ["SCHEMA_VERSION", "TABLES"]


def __getattr__(name: str) -> Any:
    """Load the declarations on first use."""
    if name == "TABLES":
        from schemas.registry import TABLES

        return TABLES
    raise AttributeError(f"module 'schemas' has no attribute {name!r}")
