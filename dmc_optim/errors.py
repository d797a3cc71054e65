"""The error tree. Every error a user can cause is a `DmcOptimError` with a one-line message.

DmcOptimError                what went wrong, where, what to do; the CLI prints it without a traceback
├── UsageError               the request cannot be carried out as asked (exit 2)
│   ├── ConfigError          a configuration file or option is wrong
│   ├── SourceError          an input file is unreadable, empty or lacks columns
│   ├── ArtifactError        an output directory is not what the command needs
│   └── InvalidInputError    arguments of a numeric function are unusable (shape, range, NaN)
└── RunError                 the run failed although the request was fine (exit 1)
    ├── StageError           a pipeline stage failed
    ├── ServiceError         an execution service could not be reached or gave no answer
    │   ├── ServiceBusyError     it refused for load (429); carries retry_after_s
    │   └── ServiceRejectedError it refused the request itself (401, 413, 422)
    ├── EngineError          the embedded engine cannot run here
    │   └── IsolationError   this host cannot give the isolation tier asked for
    └── GenerationError      a language-model backend gave no usable answer
        ├── GenerationBusyError     for now (429, 5xx, time-out, broken answer): ask again
        └── GenerationRejectedError never for this request (400, 413): asking again is useless
"""


class DmcOptimError(Exception):
    """Base of every error this library raises on purpose."""

    exit_code = 1


class UsageError(DmcOptimError):
    """The request cannot be carried out as asked."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file or option is wrong."""


class SourceError(UsageError):
    """An input file is unreadable, empty or lacks columns."""


class ArtifactError(UsageError):
    """An output directory is not what the command needs."""


class InvalidInputError(UsageError, ValueError):
    """Arguments of a numeric function are unusable (shape, range, NaN)."""


class RunError(DmcOptimError):
    """The run failed although the request was fine."""


class StageError(RunError):
    """A pipeline stage failed."""


class ServiceError(RunError):
    """An execution service could not be reached or gave no answer."""


class ServiceBusyError(ServiceError):
    """The service refused for load; try again after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServiceRejectedError(ServiceError):
    """The service refused the request itself (authorisation, size, form)."""


class EngineError(RunError):
    """The embedded engine cannot run here."""


class IsolationError(EngineError):
    """This host cannot give the isolation tier asked for."""


class GenerationError(RunError):
    """A language-model backend gave no usable answer."""


class GenerationBusyError(GenerationError):
    """No answer for now; ask again, `retry_after_s` seconds later if the server said so.

    kind: one word for the ledger.
    """

    def __init__(self, message: str, kind: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s


class GenerationRejectedError(GenerationError):
    """The server refuses this request for good, e.g. a prompt longer than the model's context."""
