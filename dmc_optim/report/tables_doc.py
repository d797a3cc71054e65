"""docs/tables.md, rendered from the schemas: `python -m dmc_optim.report.tables_doc > docs/tables.md`."""

from dmc_optim.report.explain import meaning
from dmc_optim.report.text import markdown_table
from schemas import SCHEMA_VERSION, TABLES
from schemas.enums import ATTRITION_ONLY, AttemptReason, Reason
from schemas.table import Column, Table

_LISTED = 12  # longer lists of accepted values are named, not spelled out


def render() -> str:
    """The whole page."""
    parts = [
        "# Tables",
        "<!-- Generated: python -m dmc_optim.report.tables_doc > docs/tables.md -->",
        f"Schema version {SCHEMA_VERSION}. A build writes `<out>/tables/<table>/<stage>-<shard>.parquet`; a table "
        "without rows has no file. Times are seconds, sizes bytes unless a column says otherwise. A null means not "
        "measured, 0 means measured zero. `dmc-optim audit DIR --check` runs every rule below.",
        "\n".join(f"- [{table.name}](#{table.name}): {table.description}" for table in TABLES.values()),
        *(_table(table) for table in TABLES.values()),
        "## Drop reasons",
        "`reason` of `exclusions` and `attrition`, with what `value` and `threshold` say. Reasons marked ledger only "
        "are counted in `attrition` and have no `exclusions` row.",
        _reasons(),
    ]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    rows = [[f"`{c.name}`", f"`{c.type}`", "yes" if c.nullable else "", _meaning(c)] for c in table.columns]
    parts = [
        f"## {table.name}",
        f"{table.description}\n\nKey: {', '.join(f'`{name}`' for name in table.key)}.",
        markdown_table(["column", "type", "null", "meaning"], rows),
    ]
    rules = []
    for key in table.foreign_keys:
        ours, theirs = (", ".join(f"`{name}`" for name in names) for names in (key.columns, key.target_columns))
        where = f", where {key.where.replace('t.', '')}" if key.where else ""
        rules.append(f"- {ours} → `{key.table}` ({theirs}){where}")
    rules += [f"- {name}: {doc}" for name, _, doc in table.rules]
    if rules:
        parts.append("Rules:\n\n" + "\n".join(rules))
    return "\n\n".join(parts)


def _meaning(column: Column) -> str:
    text = column.doc
    if column.accepted:
        values = [value or "(empty)" for value in column.accepted]
        listed = ", ".join(values) if len(values) <= _LISTED else f"{len(values)} values, see below"
        if column.name == "difficulty":
            listed = "unknown, easy, medium, hard, harder, hardest, external, a to v"
        text += f" One of: {listed}."
    return text


def _reasons() -> str:
    rows = [
        [f"`{reason}`", meaning(reason) + (" (ledger only)" if reason in ATTRITION_ONLY else "")]
        for reason in (*Reason, *AttemptReason)
    ]
    return markdown_table(["reason", "meaning"], rows)


if __name__ == "__main__":
    print(render(), end="")
