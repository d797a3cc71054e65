"""Statement quality by model: is a statement well formed, complete and unambiguous (paper B.2)?

The answers are kept like those of any campaign (llm.campaign), so judging resumes where it stopped. An answer that
is not exactly the verdict asked for is asked again with another seed; a statement without a verdict after that is
not judged, which is no reason to drop it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmc_optim.errors import SourceError
from dmc_optim.llm.backends import Backend, Sampling
from dmc_optim.llm.blocks import split_reasoning
from dmc_optim.llm.campaign import CampaignReport, run_campaign
from dmc_optim.llm.prompts import Prompt, build_quality_prompt
from dmc_optim.llm.recorded import RecordedCompletions

QUESTIONS = ("well_formed", "complete", "unambiguous")
JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
_MAX_ANSWER_CHARS = 64 * 1024
_MAX_REASON_CHARS = 300
_FENCED = re.compile(r"\s*```(?:json)?\s*(\{.*\})\s*```\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatementVerdict:
    """What the model said of a statement. reason: one line; names what is wrong, empty when nothing is."""

    well_formed: bool
    complete: bool
    unambiguous: bool
    reason: str = ""
    model: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the statement may stay in the corpus."""
        return self.well_formed and self.complete and self.unambiguous

    @property
    def detail(self) -> str:
        """One line for the exclusions ledger, e.g. `not complete: the figure is missing`."""
        wrong = [f"not {question}" for question in QUESTIONS if not getattr(self, question)]
        return ": ".join(filter(None, (", ".join(wrong), self.reason)))


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdicts by problem, and why the others have none (`no_answer`, or what was wrong with the last answer)."""

    verdicts: dict[str, StatementVerdict]
    unjudged: dict[str, str]
    reports: tuple[CampaignReport, ...]


def parse_verdict(text: str, model: str = "") -> StatementVerdict | str:
    """The verdict in an answer, or what is wrong with the answer.

    Strict: apart from a reasoning block and one code fence, the answer is a single JSON object with exactly the
    three questions as true or false, and `reason` as an optional string.
    """
    if len(text) > _MAX_ANSWER_CHARS:
        return f"the answer has {len(text)} characters"
    parts = split_reasoning(text)
    if not parts.reasoning_closed:
        return "the answer ends inside its reasoning"
    fenced = _FENCED.fullmatch(parts.answer)
    try:
        value = json.loads(fenced.group(1) if fenced else parts.answer)
    except (ValueError, RecursionError):
        return "the answer is not a JSON object"
    if not isinstance(value, dict):
        return "the answer is not a JSON object"
    unknown = sorted(set(value) - {*QUESTIONS, "reason"})
    if unknown:
        return f"unknown field {unknown[0][:40]!r}"
    for question in QUESTIONS:
        if not isinstance(value.get(question), bool):
            return f"{question} is neither true nor false"
    reason = value.get("reason") or ""
    if not isinstance(reason, str):
        return "reason is no string"
    line = " ".join(reason.split())[:_MAX_REASON_CHARS]
    return StatementVerdict(value["well_formed"], value["complete"], value["unambiguous"], line, model)


def judge(
    statements: Sequence[tuple[str, str]],
    backend: Backend,
    store_path: str | Path,
    *,
    tries: int = 3,
    sampling: Sampling = JUDGE_SAMPLING,
    **options: Any,
) -> Judgement:
    """Ask for a verdict on every statement, going on where an earlier run stopped.

    statements: (problem_id, statement). The first try is greedy, later ones are drawn at temperature 1, since a
    greedy model repeats itself. options: of `Campaign` (concurrency, retry, …). Raises what a campaign raises.
    """
    verdicts: dict[str, StatementVerdict] = {}
    wrong: dict[str, str] = {}
    reports: list[CampaignReport] = []
    waiting = list(statements)
    for attempt in range(tries):
        if not waiting:
            break
        drawn = sampling if attempt == 0 else Sampling(1.0, sampling.top_p, sampling.max_tokens, sampling.extra)
        prompts = (Prompt(pid, "", None, build_quality_prompt(text), first_attempt=attempt) for pid, text in waiting)
        reports.append(run_campaign(prompts, backend, store_path, k=1, sampling=drawn, **options))
        answers = _answers(store_path, (problem_id for problem_id, _ in waiting), attempt)
        for problem_id, _ in waiting:
            found = parse_verdict(*answers[problem_id]) if problem_id in answers else "no_answer"
            if isinstance(found, StatementVerdict):
                verdicts[problem_id] = found
                wrong.pop(problem_id, None)
            else:
                wrong[problem_id] = found
        waiting = [item for item in waiting if item[0] not in verdicts]
    return Judgement(verdicts, wrong, tuple(reports))


def judge_statements(
    statements: Mapping[str, str], backend: Backend, store_path: str | Path, **options: Any
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """`judge` in the form of the table `statement_quality`: ({problem_id: row}, lines for a person).

    A problem without a verdict has a row whose three answers are None and whose reason says why.
    """
    judgement = judge(list(statements.items()), backend, store_path, **options)
    rows: dict[str, dict[str, Any]] = {}
    for problem_id in statements:
        verdict = judgement.verdicts.get(problem_id)
        answers = {question: getattr(verdict, question, None) for question in QUESTIONS}
        reason = verdict.reason if verdict else judgement.unjudged[problem_id]
        row = {"problem_id": problem_id, **answers, "model": backend.model, "reason": reason or None}
        rows[problem_id] = row
    lines = [line for report in judgement.reports for line in report.lines()]
    refused = sum(not verdict.accepted for verdict in judgement.verdicts.values())
    unjudged = f", {len(judgement.unjudged)} without a verdict (kept)" if judgement.unjudged else ""
    lines.append(f"statements: {len(judgement.verdicts)} judged, {refused} refused{unjudged}")
    return rows, lines


def _answers(store_path: str | Path, problem_ids: Iterable[str], attempt: int) -> dict[str, tuple[str, str]]:
    """(text, model) of one attempt by problem; nothing when not a single answer came."""
    try:
        recorded = RecordedCompletions.load(store_path)
    except SourceError:  # every request failed, so the file holds no answer
        return {}
    found: dict[str, tuple[str, str]] = {}
    for problem_id in problem_ids:
        for answer in recorded.attempts(problem_id, "", ""):
            if answer.attempt == attempt:
                found[problem_id] = (answer.completion or answer.reasoning, answer.model)
    return found
