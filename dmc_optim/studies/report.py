"""What a study hands back, and its three forms: JSON, one self-contained HTML page, Parquet of its main table."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dmc_optim.errors import ArtifactError, ConfigError

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a printed table. format: a format specification for numbers, e.g. ``.3f``."""

    key: str
    label: str
    format: str = ""

    def text(self, value: Any) -> str:
        """The cell as text; nothing measured is a dash, not a zero."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        return format(value, self.format) if self.format and isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Table:
    """Rows with a caption. Rows may hold more keys than the printed columns; JSON and Parquet keep them all.

    detail: long; not printed on a terminal, folded away on the page.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    detail: bool = False

    def text(self) -> str:
        """Aligned plain text."""
        cells = [[column.label for column in self.columns]]
        cells += [[column.text(row.get(column.key)) for column in self.columns] for row in self.rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(self.columns))]
        numeric = [
            any(isinstance(row.get(c.key), int | float) for row in self.rows) and bool(c.format) for c in self.columns
        ]
        lines = [
            "  ".join(
                cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True)
            ).rstrip()
            for line in cells
        ]
        return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])


@dataclass(frozen=True)
class Figure:
    """Charts (SVG text, see `charts`) under one heading. columns: charts in a row, as many as fit where None."""

    title: str
    caption: str
    charts: Sequence[str]
    columns: int | None = None


@dataclass(frozen=True)
class StudyReport:
    """A finished study. facts: headline figures as (label, value); settings: what it was run with.

    main_table: name of the table that becomes Parquet.
    """

    title: str
    lead: str
    settings: Row
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    figures: Sequence[Figure]
    main_table: str
    summary: Row = field(default_factory=dict)

    def as_json(self) -> str:
        """Settings, summary and every table, one JSON object; NaN becomes null."""
        tables = {table.name: list(table.rows) for table in self.tables}
        return json.dumps(without_nan({"settings": self.settings, "summary": self.summary, **tables}), indent=1)

    def as_text(self) -> str:
        """Facts and tables for a terminal."""
        parts = [self.title, *(f"  {label}: {value}" for label, value in self.facts)]
        for table in self.tables:
            if not table.detail:
                parts += ["", table.caption, table.text()]
        return "\n".join(parts)

    def write(self, path: Path) -> None:
        """Write HTML or Parquet (the main table), by suffix. Raises ConfigError for another suffix.

        Raises ArtifactError where the path cannot be written.
        """
        check_output(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".parquet":
                self._write_parquet(path)
            else:
                path.write_text(self.as_html(), encoding="utf-8")
        except OSError as error:
            raise ArtifactError(f"{path}: cannot be written ({error.strerror or error}); choose another -o") from error

    def as_html(self) -> str:
        """One page that opens offline: no script, no font, no link to anywhere."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(
            loader=PackageLoader("dmc_optim.studies"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        return environment.get_template("study.html.jinja").render(report=self)

    def _write_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        (main,) = (table for table in self.tables if table.name == self.main_table)
        table = pa.Table.from_pylist([without_nan(row) for row in main.rows])
        settings = json.dumps(without_nan(self.settings))
        pq.write_table(table.replace_schema_metadata({"study": self.title, "settings": settings}), path)


def check_output(path: Path) -> None:
    """Raises ConfigError unless the suffix is .html or .parquet: said before the study runs, not after."""
    if path.suffix not in (".html", ".parquet"):
        raise ConfigError(f"{path}: -o takes a file ending in .html or .parquet; figures as JSON come with --json")


def without_nan(value: Any) -> Any:
    """The same structure with NaN as None (JSON has no NaN), NumPy scalars and arrays as Python ones."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
