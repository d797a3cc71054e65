"""Running one stage's transform on a Beam runner."""

import contextlib
import io
import logging
import re

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from dmc_optim import errors
from dmc_optim.errors import ConfigError, DmcOptimError, StageError
from pipeline.request import LOCAL_RUNNER

_OWN_ERROR = re.compile(r"dmc_optim\.errors\.(\w+): (.*)")


def run(transform: beam.PTransform, stage: str, runner: str, threads: int, options: tuple[str, ...]) -> None:
    """Run to the end. Raises the stage's own error where one was raised in a worker, else StageError."""
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    logging.getLogger("root").setLevel(logging.CRITICAL)
    flags = [f"--runner={runner}", f"--job_name=dmc-optim-{stage.replace('_', '-')}", *options]
    if runner == LOCAL_RUNNER:
        # Programs run in child processes of the execution service, so threads are enough here, and the cheapest.
        flags += [f"--direct_num_workers={threads}", "--direct_running_mode=multi_threading"]
    # Workers print tracebacks of their own; the error itself comes back to us and is reported once.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            with beam.Pipeline(options=PipelineOptions(flags)) as root:
                _ = root | stage >> transform
        except DmcOptimError:
            raise
        except ValueError as error:
            if "Unexpected pipeline runner" in str(error):
                raise ConfigError(f"--runner {runner}: Beam has no such runner; {LOCAL_RUNNER} runs here") from error
            raise stage_error(stage, error) from error
        except Exception as error:
            raise stage_error(stage, error) from error


def stage_error(stage: str, error: BaseException) -> DmcOptimError:
    """The error a worker raised, by its own type where it is one of ours: runners pass them on as text."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, DmcOptimError):
            return seen
        seen = seen.__cause__ or seen.__context__
    found = _OWN_ERROR.findall(str(error))
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, StageError)
        return kind(message) if kind.__init__ is DmcOptimError.__init__ else StageError(message)
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return StageError(f"stage {stage} failed: {lines[-1].strip()} (run again to continue; --debug shows the traceback)")
