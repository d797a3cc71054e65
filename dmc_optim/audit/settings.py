"""The configuration that a finished build was made with, read back from its manifest."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from dmc_optim.config import BuildConfig


def stored_config(manifest: dict[str, Any]) -> BuildConfig:
    """The manifest's settings; defaults where it says nothing, keys of newer versions ignored."""
    config = _overlay(BuildConfig(), manifest.get("config") or {})
    assert isinstance(config, BuildConfig)
    return config


def _overlay(base: Any, stored: dict[str, Any]) -> Any:
    changes = {}
    for field in fields(base):
        if field.name not in stored:
            continue
        current, value = getattr(base, field.name), stored[field.name]
        if is_dataclass(current) and isinstance(value, dict):
            changes[field.name] = _overlay(current, value)
        elif isinstance(current, tuple):
            changes[field.name] = tuple(value)
        else:
            changes[field.name] = value
    return replace(base, **changes)
