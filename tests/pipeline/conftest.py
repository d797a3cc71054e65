"""The synthetic corpus on disk, once a session."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pipeline.corpus import corpus, write_generators, write_source


@dataclass(frozen=True)
class Inputs:
    source: Path
    generators: Path


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("source")
    problems = corpus()
    return Inputs(
        write_source(folder / "train-00000-of-00001.parquet", problems),
        write_generators(folder / "generators.jsonl", problems),
    )
