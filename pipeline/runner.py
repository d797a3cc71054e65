"""Running one stage's transform on a Beam runner."""

import contextlib
import io
import logging
import re
from collections.abc import Iterable

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from dmc_optim import errors
from dmc_optim.config import LOCAL_RUNNER
from dmc_optim.errors import ConfigError, DmcOptimError, StageError

_GRPC_DETAILS = re.compile(r'details = "(.*)"')
_OWN_ERROR = re.compile(r"dmc_optim\.errors\.(\w+): (.*)")


def run(transform: beam.PTransform, stage: str, runner: str, threads: int, options: tuple[str, ...]) -> None:
    """Run to the end. Raises the stage's own error where one was raised in a worker, else StageError."""
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    logging.getLogger("root").setLevel(logging.CRITICAL)
    flags = [f"--runner={runner}", f"--job_name=dmc-optim-{stage.replace('_', '-')}"]
    if runner == LOCAL_RUNNER:
        # Programs run in child processes of the execution service, so threads are enough here, and the cheapest.
        flags += [f"--direct_num_workers={threads}", "--direct_running_mode=multi_threading"]
    flags += options
    # Workers print tracebacks of their own; the error itself comes back to us and is reported once.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            with beam.Pipeline(options=PipelineOptions(flags)) as root:
                _ = root | stage >> transform
        except DmcOptimError:
            raise
        except grpc.FutureTimeoutError as error:
            portable = PipelineOptions(flags).view_as(PortableOptions)
            waited = f"--job_endpoint={portable.job_endpoint}: nobody answered in {portable.job_server_timeout} s"
            raise StageError(f"{waited}; is the job service running?") from error
        except Exception as error:
            raise stage_error(stage, error) from error


def check_runner(runner: str, options: tuple[str, ...], paths: Iterable[tuple[str, str]]) -> None:
    """Look at the runner and its options before the first stage. paths: (option, value) of what the workers open.

    Raises ConfigError with one line: no such runner, an option that Beam refuses or lacks, a job service that nobody
    named, files of this machine that the workers cannot see.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = PipelineOptions([f"--runner={runner}", "--job_name=dmc-optim", *options])
            parsed.get_all_options()
    except SystemExit as error:
        lines = said.getvalue().splitlines() or ["not understood"]
        raise ConfigError(f"options after --: {lines[-1].rpartition('error: ')[2]}") from error
    made = _runner(runner)
    if type(made) is PortableRunner and not parsed.view_as(PortableOptions).job_endpoint:
        raise ConfigError(f"--runner {runner}: which job service? Add -- --job_endpoint=HOST:PORT")
    if type(made).__name__ == "DataflowRunner":
        for option, value in paths:
            if "://" not in value or value.startswith("file://"):
                raise ConfigError(f"{option} {value}: Dataflow's workers see no file of this machine; give a gs:// URL")
    refused = PipelineOptionsValidator(parsed, made).validate()
    if refused:
        raise ConfigError(f"--runner {runner}: {' '.join(' '.join(refused).split())}")


def _runner(name: str) -> PipelineRunner:
    try:
        return create_runner(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise ConfigError(f"--runner {name}: Beam has no such runner; {LOCAL_RUNNER} runs here") from error


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
    lines = _GRPC_DETAILS.findall(str(error)) or [line for line in str(error).splitlines() if line.strip()]
    lines = lines or [type(error).__name__]
    return StageError(f"stage {stage} failed: {lines[-1].strip()} (run again to continue; --debug shows the traceback)")
