"""What the adaptive option gains, with a scripted model: plain attempts, more plain attempts, and attempts that heed.

    .venv/bin/python bench/adaptive_gain.py                                    # the bundled corpus
    .venv/bin/python bench/adaptive_gain.py --source dmc.parquet --recorded generators.jsonl --problems 12

The model is a script behind a real HTTP server. It answers a plain prompt with the recorded generator of that
problem and attempt. A prompt with measured durations it answers with the same class, `large` drawn more often in
place of `edge` and `sample`; a prompt with a surviving wrong program, with the same class drawing `small` instead.
So the gain is that of the simplest way of doing what the prompt says, not of a model. Three builds: k attempts;
k + e attempts for every problem; k attempts, and e more only where tests fall short.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pyarrow.parquet as pq  # noqa: E402

from dmc_optim.audit.connection import connect  # noqa: E402
from dmc_optim.config import load_config  # noqa: E402
from dmc_optim.llm.recorded import RecordedCompletions  # noqa: E402
from dmc_optim.report.text import text_table  # noqa: E402
from pipeline.build import build  # noqa: E402
from pipeline.request import EXAMPLES, BuildRequest  # noqa: E402
from schemas.enums import Stage  # noqa: E402
from tests.llm.fake_server import MODEL, FakeServer  # noqa: E402

HEEDS = {
    "What earlier inputs did": """
class InputGenerator(Recorded):
    def edge(self):
        return Recorded.large(self) if random.random() < 0.7 else Recorded.edge(self)

    def sample(self):
        return Recorded.large(self) if random.random() < 0.5 else Recorded.sample(self)
""",
    "A wrong program that passes every test so far": """
class InputGenerator(Recorded):
    def edge(self):
        return random.choice((Recorded.edge, Recorded.small))(self)

    def sample(self):
        return Recorded.small(self)
""",
}

FIGURES = """
SELECT (SELECT count(*) FROM generator_attempts) AS attempts,
       (SELECT count(*) FILTER (accepted) FROM generator_attempts) AS accepted,
       (SELECT count(*) FROM filterability WHERE category = 'optimization') AS judged,
       (SELECT count(*) FROM filterability WHERE category = 'optimization' AND robust_cv >= 0.3) AS cv_at_least_0_3,
       (SELECT count(*) FROM filterability WHERE category = 'optimization' AND duration_filterable) AS filterable,
       (SELECT median(robust_cv) FROM filterability WHERE category = 'optimization') AS median_cv,
       (SELECT sum(round(fp_before * n_incorrect_in)) FROM problem_metrics WHERE campaign = 'correctness') AS passing,
       (SELECT sum(round(fp_final * n_incorrect_in)) FROM problem_metrics WHERE campaign = 'correctness') AS surviving,
       (SELECT count(*) FROM survivors_filter_optimization_problems) AS problems_kept
"""


class Script:
    """Answers by the statement in the prompt. names: {statement: problem name}."""

    def __init__(self, names: dict[str, str], recorded: RecordedCompletions, base_seed: int) -> None:
        self._names, self._recorded, self._base_seed = names, recorded, base_seed

    def __call__(self, messages: list[dict], seed: int) -> str:
        """The recorded answer, or its class made to heed the prompt."""
        text = messages[1]["content"]
        name = next(name for statement, name in self._names.items() if statement in text)
        campaign = "optimization" if "rank correct programs" in text else "correctness"
        answers = self._recorded.attempts("", name, campaign)
        if not answers:
            return "I have no generator for this problem."
        answer = answers[(seed - self._base_seed) % len(answers)].completion
        for words, heeding in HEEDS.items():
            if words in text:
                code = re.sub(r"\bInputGenerator\b", "Recorded", answer.split("```python\n", 1)[-1].split("```")[0])
                return f"```python\nimport random\n{code}\n{heeding}```"
        return answer


def serve(script: Script) -> str:
    """The scripted server on a daemon thread; its specification."""
    loop, server = asyncio.new_event_loop(), FakeServer(answer=script)
    threading.Thread(target=loop.run_forever, daemon=True).start()
    port = asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    return f"openai:http://127.0.0.1:{port}#{MODEL}"


def source_names(source: Path) -> dict[str, str]:
    """{statement as the prompt shows it: name} of every row that has both."""
    files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
    pairs = {}
    for file in files:
        table = pq.read_table(file, columns=["name", "description"])
        columns = [table[name].cast("binary").to_pylist() for name in ("description", "name")]
        for statement, name in zip(*columns, strict=True):
            if statement and name and statement.strip():
                pairs[statement.decode(errors="replace").strip()] = name.decode(errors="replace")
    return dict(sorted(pairs.items(), key=lambda item: -len(item[0])))  # longest first: one may contain another


def main() -> None:
    """Three builds, one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=EXAMPLES / "corpus")
    parser.add_argument("--recorded", type=Path, default=EXAMPLES / "recorded_generators.jsonl")
    parser.add_argument("--config", type=Path, default=EXAMPLES / "build.toml")
    parser.add_argument("--attempts", type=int, default=2)
    parser.add_argument("--more", type=int, default=2)
    parser.add_argument("--problems", type=int)
    parser.add_argument("--solutions", type=int)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    config = load_config(args.config)
    spec = serve(Script(source_names(args.source), RecordedCompletions.load(args.recorded), config.seed))
    k, more = args.attempts, args.more
    # One directory for all: what an earlier build executed is reused. The adaptive one goes before the larger plain
    # one, whose answers would else stand for the further attempts.
    arms = {
        f"plain, {k} attempts": (k, 0),
        f"adaptive, {k} + {more}": (k, more),
        f"plain, {k + more} attempts": (k + more, 0),
    }
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (attempts, extra) in arms.items():
            synthesis = replace(config.synthesis, attempts=attempts, adaptive_attempts=extra)
            request = BuildRequest(
                str(args.source),
                f"{folder}/out",
                replace(config, synthesis=synthesis),
                generator=spec,
                through=Stage.FILTERABILITY,
                limit_problems=args.problems,
                limit_solutions=args.solutions,
            )
            build(request, lambda line: print(line, file=sys.stderr))
            cursor = connect(request.out).execute(FIGURES)
            names = [column for column, *_ in cursor.description or ()]
            found.append({"arm": name, **dict(zip(names, cursor.fetchone() or (), strict=True))})
            print(found[-1], file=sys.stderr, flush=True)
    rows = [list(row.values()) for row in found]
    print(json.dumps(found, indent=1) if args.json else text_table(list(found[0]), rows))


if __name__ == "__main__":
    main()
