"""`dmc-optim report`: the paper's statistics on a build, as a page, Markdown or JSON."""

import json
from pathlib import Path

import click


@click.command()
@click.argument("directory", metavar="DIR")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write a page (.html) or tables (.md)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def report(directory: str, output: Path | None, as_json: bool) -> None:
    """Recompute the paper's data statistics on a build, each figure beside the paper's.

    Without -o and --json, the tables are printed.

    \b
    Examples:
      dmc-optim report out -o report.html
      dmc-optim report out --json
    """
    from dmc_optim.report.statistics import build_statistics

    if output is not None and output.suffix not in (".html", ".md"):
        raise click.UsageError(f"-o {output}: give a name that ends in .html or .md")
    if output is not None:
        _write(directory, output)
        click.echo(f"wrote {output}", err=True)
    if as_json:
        click.echo(json.dumps(build_statistics(directory).as_json(), indent=1, default=str))
    elif output is None:
        _print(directory)


def _write(directory: str, output: Path) -> None:
    from dmc_optim.errors import ArtifactError
    from dmc_optim.report.markdown import real_data_markdown
    from dmc_optim.report.page import write_report

    if output.suffix == ".html":
        write_report(directory, output)
        return
    text = real_data_markdown(directory)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArtifactError(f"{output}: cannot be written ({error.strerror or error}); choose another -o") from error


def _print(directory: str) -> None:
    from dmc_optim.report.statistics import build_statistics
    from dmc_optim.report.text import text_table

    for section in build_statistics(directory).sections:
        title = f"{section.title} ({section.source})"
        if section.listed:
            rows = [(m.label, m.ours_text.rjust(12), m.paper_text.rjust(12)) for m in section.measures]
            click.echo(text_table([title, "        ours", "       paper"], rows))
        else:
            click.echo(title + "\n" + "\n".join(text_table(own.names, own.rows) for own in section.listings))
        click.echo(f"{section.note}\n" if section.note else "")
