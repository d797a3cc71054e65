"""The statistics as Markdown tables, for docs/real-data.md and the dataset card."""

from collections.abc import Iterable

from dmc_optim.report.measures import Section, Statistics
from dmc_optim.report.text import markdown_table


def statistics_markdown(statistics: Statistics, keys: Iterable[str] | None = None, level: int = 3) -> str:
    """One heading and table a section, ours beside the paper's; figures nobody has are left out.

    keys: the sections wanted, in this order; None for all. level: of the headings.
    """
    known = {section.key: section for section in statistics.sections}
    chosen = known.values() if keys is None else [known[key] for key in keys if key in known]
    return "\n\n".join(_section(section, level) for section in chosen) + "\n"


def real_data_markdown(out: str, level: int = 3) -> str:
    """All tables of a build at `out`, ready to paste. Raises ArtifactError when there is none."""
    from dmc_optim.report.statistics import build_statistics

    return statistics_markdown(build_statistics(out), level=level)


def _section(section: Section, level: int) -> str:
    rows = [
        [measure.label.strip(), measure.ours_text, measure.paper_text]
        for measure in section.measures
        if measure.ours is not None or measure.paper is not None
    ]
    parts = [f"{'#' * level} {section.title} ({section.source})"]
    if section.note:
        parts.append(section.note)
    if section.listed:
        parts.append(markdown_table(["", "ours", "paper"], rows))
    for listing in section.listings:
        parts += [f"{listing.title}:", markdown_table(listing.names, listing.rows)]
    return "\n\n".join(parts)
