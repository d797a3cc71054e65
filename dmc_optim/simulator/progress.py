"""A progress bar for sweeps: live on a terminal, plain lines elsewhere."""

import sys

from dmc_optim.progress import Lines, Progress, Silent


class Bar:
    """A rich bar with the time left, on standard error."""

    def start(self, stage: str, total: int) -> None:
        """Show an empty bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._total = total
        self._task = self._bar.add_task(stage, total=total)
        self._bar.start()

    def add(self, units: int) -> None:
        """Raise the total."""
        self._total += units
        self._bar.update(self._task, total=self._total)

    def step(self, unit: str, seconds: float, executions: int = 0) -> None:
        """Advance by one unit."""
        self._bar.advance(self._task)

    def finish(self, note: str) -> None:
        """Replace the bar by the closing note."""
        self.stop()
        self._bar.console.print(note, highlight=False, markup=False)

    def stop(self) -> None:
        """Take the bar away and give the terminal its cursor back."""
        self._bar.stop()


def sweep_progress(quiet: bool) -> Progress:
    """A bar on a terminal, a line every few seconds elsewhere, nothing when quiet."""
    if quiet:
        return Silent()
    if sys.stderr.isatty():
        return Bar()
    return Lines(interval_s=5.0)
