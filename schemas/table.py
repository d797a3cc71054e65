"""How a table is declared: columns with their documentation, the key, and the rules its rows must obey.

A declaration is data. `Table.schema` gives the Arrow schema that every writer uses; `Table.checks` gives the
rules as SQL queries that return the violating rows (run by `dmc-optim audit --check`); docs/tables.md is
rendered from the same objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column. nullable: None means "not measured"; accepted: the only values; minimum, maximum: inclusive."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False
    accepted: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    @property
    def field(self) -> pa.Field:
        """The Arrow field; its metadata carries the documentation into every Parquet footer."""
        return pa.field(self.name, self.type, nullable=self.nullable, metadata={"doc": self.doc})


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of this table name an existing row of `table`. where: SQL over alias t, the rows it binds."""

    columns: tuple[str, ...]
    table: str
    target: tuple[str, ...] = ()
    where: str = ""

    @property
    def target_columns(self) -> tuple[str, ...]:
        """Columns in the other table; the same names unless `target` says otherwise."""
        return self.target or self.columns


@dataclass(frozen=True)
class Check:
    """One rule. sql: a query that returns the violating rows, so an empty result means that the rule holds."""

    name: str
    doc: str
    sql: str


@dataclass(frozen=True)
class Table:
    """One table of `<out>/tables/<name>/`. Key columns come first and are unique together and never null.

    rules: SQL expressions over the table's columns that hold in every row, as (name, expression, meaning); a
    rule that evaluates to NULL is not violated.
    """

    name: str
    key: tuple[str, ...]
    description: str
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    rules: tuple[tuple[str, str, str], ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the documentation as metadata of table and fields."""
        return pa.schema([column.field for column in self.columns], metadata={"doc": self.description})

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names in declared order."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        """The column of that name. Raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name}")

    @property
    def checks(self) -> Iterator[Check]:
        """Every declared rule as SQL: unique key, not null, accepted values, ranges, foreign keys, own rules."""
        yield self._unique_key()
        for column in self.columns:
            yield from self._column_checks(column)
        for foreign_key in self.foreign_keys:
            yield self._foreign_key(foreign_key)
        for name, expression, doc in self.rules:
            sql = f"SELECT {', '.join(self.key)} FROM {self.name} WHERE NOT ({expression})"
            yield Check(f"{self.name}: {name}", doc, sql)

    def _unique_key(self) -> Check:
        key = ", ".join(self.key)
        sql = f"SELECT {key}, count(*) AS rows FROM {self.name} GROUP BY {key} HAVING count(*) > 1"
        return Check(f"{self.name}: unique key", f"({key}) names one row", sql)

    def _column_checks(self, column: Column) -> Iterator[Check]:
        select = ", ".join(dict.fromkeys((*self.key, column.name)))
        name, prefix = column.name, f"{self.name}.{column.name}"
        if not column.nullable:
            sql = f"SELECT {select} FROM {self.name} WHERE {name} IS NULL"
            yield Check(f"{prefix}: not null", "a required value is present", sql)
        if column.accepted:
            values = ", ".join(f"'{value}'" for value in column.accepted)
            sql = f"SELECT {select} FROM {self.name} WHERE {name} NOT IN ({values})"
            yield Check(f"{prefix}: accepted values", "one of the declared values", sql)
        bounds = []
        if column.minimum is not None:
            bounds.append(f"{name} < {column.minimum!r}")
        if column.maximum is not None:
            bounds.append(f"{name} > {column.maximum!r}")
        if column.type == pa.float64():
            bounds.append(f"isnan({name})")
        if bounds:
            sql = f"SELECT {select} FROM {self.name} WHERE {' OR '.join(bounds)}"
            yield Check(f"{prefix}: range", "inside its declared range, never NaN", sql)

    def _foreign_key(self, foreign_key: ForeignKey) -> Check:
        pairs = list(zip(foreign_key.columns, foreign_key.target_columns, strict=True))
        select = ", ".join(f"t.{name}" for name in dict.fromkeys((*self.key, *foreign_key.columns)))
        match = " AND ".join(f"o.{theirs} = t.{ours}" for ours, theirs in pairs)
        present = " AND ".join(f"t.{ours} IS NOT NULL" for ours in foreign_key.columns)
        where = f" AND ({foreign_key.where})" if foreign_key.where else ""
        sql = (
            f"SELECT {select} FROM {self.name} t WHERE {present}{where} "
            f"AND NOT EXISTS (SELECT 1 FROM {foreign_key.table} o WHERE {match})"
        )
        ours = ", ".join(foreign_key.columns)
        return Check(
            f"{self.name}.{ours} in {foreign_key.table}: foreign key", f"names a row of {foreign_key.table}", sql
        )
