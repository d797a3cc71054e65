"""A backend that answers from a recorded file: turns answers from elsewhere into a campaign of one's own."""

from dmc_optim.errors import GenerationRejectedError
from dmc_optim.llm.backends import Completion, CompletionRequest
from dmc_optim.llm.recorded import RecordedCompletions


class ReplayBackend:
    """Answers with the recorded completion of the same problem, campaign and attempt, whatever the prompt says."""

    def __init__(self, recorded: RecordedCompletions, revision: str = "") -> None:
        self._recorded = recorded
        self.revision = revision or recorded.digest[:16]
        self.model = "recorded"

    async def open(self) -> None:
        """The file was checked when it was loaded."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """The recorded answer; GenerationRejectedError where the file has none."""
        prompt = request.prompt
        for found in self._recorded.attempts(prompt.problem_id, prompt.name, prompt.campaign or ""):
            if found.attempt == request.attempt:
                usage = found.usage or {}
                return Completion(
                    found.completion,
                    found.reasoning,
                    found.finish_reason,
                    usage.get("prompt_tokens"),
                    usage.get("completion_tokens"),
                    usage.get("latency_s") or 0.0,
                )
        raise GenerationRejectedError(
            f"{self._recorded.path}: no answer for attempt {request.attempt} of {prompt.problem_id or prompt.name}"
            f" ({prompt.campaign})"
        )

    async def close(self) -> None:
        """Nothing to release."""
