"""The dataset card, publishing against a fake Hub, and ranking a program of one's own."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard

from dmc_optim.artifacts import hub
from dmc_optim.artifacts.card import configurations, render_card
from dmc_optim.artifacts.layout import Layout
from dmc_optim.ces.fake import FakeEngine
from dmc_optim.ces.types import Request, Result
from dmc_optim.errors import ArtifactError, RunError, ServiceError, UsageError
from dmc_optim.report.placement import place
from schemas.enums import Status
from schemas.published import PUBLISHED
from tests.audit.small_build import SmallBuild
from tests.report.conftest import Run

MEMBERS = {
    "rl_pool": {"train": ["train/0", "train/7"]},
    "rl_pool_complement": {"train": ["train/1"]},
    "cleaned": {"train": ["train/0", "train/7"], "complement": ["train/1"]},
    "lightweight": {"train": ["train/0", "train/7"], "complement": ["train/1"]},
}


@pytest.fixture
def published(master: Path, tmp_path: Path) -> Path:
    """A copy of the published build, to be spoiled."""
    return Path(shutil.copytree(master, tmp_path / "out"))


@pytest.fixture(scope="module")
def master(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small build with published files that hold one row a problem, and its card."""
    out = Path(shutil.copytree(small, tmp_path_factory.mktemp("published") / "out"))
    for config, splits in MEMBERS.items():
        for split, problems in splits.items():
            schema = PUBLISHED[config]
            table = pa.Table.from_pylist([{"problem_id": problem} for problem in problems], schema=schema)
            path = out / "dataset" / config / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
    (out / "dataset" / "README.md").write_text(render_card(str(out)), encoding="utf-8")
    return out


def test_card_declares_what_is_there(published: Path) -> None:
    card = DatasetCard((published / "dataset" / "README.md").read_text(encoding="utf-8"))
    data = card.data.to_dict()
    declared = {
        config["config_name"]: {entry["split"]: entry["path"] for entry in config["data_files"]}
        for config in data["configs"]
    }
    assert declared == {
        config: {split: f"{config}/{split}-*.parquet" for split in splits} for config, splits in MEMBERS.items()
    }
    assert [config["config_name"] for config in data["configs"] if config.get("default")] == ["rl_pool"]
    infos = {info["config_name"]: info for info in data["dataset_info"]}
    assert [(s["name"], s["num_examples"]) for s in infos["cleaned"]["splits"]] == [("train", 2), ("complement", 1)]
    assert (data["license"], data["size_categories"]) == ("cc-by-4.0", ["n<1K"])


def test_card_text_holds_funnel_statistics_versions_and_licences(published: Path) -> None:
    text = (published / "dataset" / "README.md").read_text(encoding="utf-8")
    assert "| filter_correctness | 5 | 4 | 3,061 | false_positive_rate 1 |" in text
    assert "| `rl_pool_complement` | train | 1 |" in text
    assert "| correctness: attempts accepted | 50.00% | 73.00% |" in text
    assert "0123456789abcdef" in text
    assert "CC BY 4.0" in text
    assert "This build is a sample" not in text
    assert str(published) not in text


def test_card_says_that_a_limited_build_is_a_sample_and_what_the_examples_are(published: Path) -> None:
    path = published / "manifest.json"
    manifest = json.loads(path.read_text())
    source = {"url": "/somewhere/examples/corpus"}
    path.write_text(json.dumps(manifest | {"limits": {"problems": 8, "solutions": None}, "source": source}))
    text = render_card(str(published))
    assert "**This build is a sample:** it was made with at most 8 problems" in text
    assert DatasetCard(text).data.license == "apache-2.0"
    assert "bundled example corpus" in text


def test_card_of_a_build_that_kept_nothing_is_still_valid(small: Path) -> None:
    text = render_card(str(small))
    assert "nothing is published" in text
    assert DatasetCard(text).data.to_dict()["configs"] == []


def test_files_are_loaded_as_declared(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    loaded = datasets.load_dataset(str(published / "dataset"), "cleaned", cache_dir=str(tmp_path / "cache"))
    assert {name: split["problem_id"][:] for name, split in loaded.items()} == MEMBERS["cleaned"]


def test_sizes_are_read_from_the_files(published: Path) -> None:
    found = {configuration.name: configuration for configuration in configurations(Layout(str(published)))}
    assert list(found) == list(MEMBERS)
    assert found["cleaned"].rows == 3
    file = published / "dataset" / "rl_pool" / "train-00000-of-00001.parquet"
    assert found["rl_pool"].splits[0].file_bytes == file.stat().st_size


class FakeHub:
    """Remembers what it was asked; `fails` names the call that the server refuses."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._fails = fails

    def _remember(self, name: str, repo_id: str, values: dict[str, Any]) -> Any:
        if name == self._fails:
            raise OSError("403 Forbidden\nRequest ID: x")
        self.calls.append((name, {"repo_id": repo_id, **values}))
        return SimpleNamespace(oid="c0ffee")

    def create_repo(self, repo_id: str, **values: Any) -> Any:
        return self._remember("create_repo", repo_id, values)

    def upload_folder(self, *, repo_id: str, **values: Any) -> Any:
        return self._remember("upload_folder", repo_id, values)

    def create_tag(self, repo_id: str, **values: Any) -> Any:
        return self._remember("create_tag", repo_id, values)


def test_publish_uploads_the_folder_and_tags_the_revision(published: Path) -> None:
    fake = FakeHub()
    assert hub.publish(hub.plan(str(published)), "me/data", fake) == "c0ffee"
    assert [name for name, _ in fake.calls] == ["create_repo", "upload_folder", "create_tag"]
    upload, tag = fake.calls[1][1], fake.calls[2][1]
    assert (upload["folder_path"], upload["delete_patterns"]) == (str(published / "dataset"), ["*.parquet"])
    assert (tag["tag"], tag["revision"]) == ("v1.0.0", "c0ffee")
    assert {values["repo_type"] for _, values in fake.calls} == {"dataset"}


def test_the_fake_hub_has_the_real_one_s_parameters() -> None:
    import inspect

    fake = FakeHub()
    planned = hub.Plan("folder", "v1", (), (), ())
    hub.publish(planned, "me/data", fake)
    real = hub.hub_api("token")
    for name, values in fake.calls:
        inspect.signature(getattr(real, name)).bind(**values)


@pytest.mark.parametrize("call", ["create_repo", "upload_folder", "create_tag"])
def test_a_refusal_of_the_hub_is_one_line(published: Path, call: str) -> None:
    with pytest.raises(RunError, match=r"^the Hub refused me/data: 403 Forbidden; uploaded parts are kept, [^\n]*$"):
        hub.publish(hub.plan(str(published)), "me/data", FakeHub(call))


def test_dry_run_lists_files_and_sends_nothing(run: Run, published: Path) -> None:
    outcome = run("publish", published, "--repo-id", "me/data", "--dry-run")
    assert outcome.code == 0
    assert "cleaned/complement-00000-of-00001.parquet" in outcome.out
    assert outcome.out.endswith("nothing was sent\n")
    document = json.loads(run("publish", published, "--repo-id", "me/data", "--dry-run", "--json").out)
    assert document["bytes"] == sum(p.stat().st_size for p in (published / "dataset").rglob("*") if p.is_file())
    assert (document["configurations"], document["problems"]) == (list(MEMBERS), [])


def _cut(folder: Path) -> None:
    path = folder / "rl_pool" / "train-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-50])


SPOILED = {
    "README.md is missing": lambda folder: (folder / "README.md").unlink(),
    "its YAML header is not valid": lambda folder: (folder / "README.md").write_text("---\nconfigs: [\n---\n"),
    "declares no configuration": lambda folder: (folder / "README.md").write_text("---\nlicense: mit\n---\n"),
    "is in no configuration": lambda folder: shutil.copytree(folder / "cleaned", folder / "another"),
    "no such file": lambda folder: shutil.rmtree(folder / "lightweight"),
    "not a readable Parquet file": _cut,
}


@pytest.mark.parametrize("problem", SPOILED)
def test_a_spoiled_folder_is_not_published(run: Run, published: Path, problem: str) -> None:
    SPOILED[problem](published / "dataset")
    outcome = run("publish", published, "--repo-id", "me/data", "--dry-run")
    assert outcome.code == 2
    assert problem in outcome.out
    fake = FakeHub()
    with pytest.raises(UsageError, match=problem):
        hub.publish(hub.plan(str(published)), "me/data", fake)
    assert fake.calls == []


def test_row_groups_that_the_viewer_cannot_read_are_named(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "VIEWER_BYTES", 100)
    files = sorted((published / "dataset").rglob("*.parquet"))
    for file in files:
        pq.write_table(pa.concat_tables([pq.read_table(file)] * 2), file)
    assert "a row group of" in hub.plan(str(published)).problems[0]
    for file in files:
        pq.write_table(pq.read_table(file), file, row_group_size=1)
    assert hub.plan(str(published)).problems == (), "what is one row cannot be cut"


def test_publish_needs_a_finished_build_and_a_repository_name(run: Run, published: Path, small: Path) -> None:
    assert "no dataset/ in it" in run("publish", small, "--repo-id", "me/data").err
    assert "must look like owner/name" in run("publish", published, "--repo-id", "data").err
    (published / "stages" / "datasets.json").unlink()
    with pytest.raises(ArtifactError, match="datasets is not done"):
        hub.plan(str(published))


# rank


def program(**behaviour: float) -> bytes:
    words = " ".join(f"{name}={value}" for name, value in behaviour.items())
    return f"# fake: {words}\n".encode()


def test_place_ranks_a_fast_and_a_slow_program(small: Path, rows: SmallBuild) -> None:
    fast = place(str(small), "train/7", program(duration=1e-6), FakeEngine())
    assert (fast.correct, fast.leaderboard_percentile, fast.mean_percentile, fast.ahead) == (True, 0.0, 0.0, 0)
    assert fast.references == 6
    assert fast.outcomes == {
        "public": {"success": 1},
        "private": {"success": 1},
        "correctness": {"success": 15},
        "optimization": {"success": 15},
    }
    slow = place(str(small), "train/7", program(duration=200.0), FakeEngine())
    assert (slow.leaderboard_percentile, slow.ahead) == (1.0, 6)
    timed = {run.test_id: run for run in slow.tests if run.category == "optimization"}
    assert {run.percentile for run in timed.values()} == {1.0}
    own = rows.rows("reference_durations", problem_id="train/7", test_id=rows.id("7/optimization4"))
    middle = sorted(row["duration_s"] for row in own)[2:4]
    assert timed[rows.id("7/optimization4")].reference_median_s == pytest.approx(sum(middle) / 2)


def test_a_wrong_program_has_verdicts_and_no_rank(small: Path) -> None:
    placement = place(str(small), "train/7", program(wrong=1.0), FakeEngine())
    assert not placement.correct
    assert placement.outcomes["public"] == {"wrong_answer": 1}
    assert (placement.leaderboard_percentile, placement.mean_percentile, placement.ahead) == (None, None, None)
    assert {run.percentile for run in placement.tests} == {None}


def test_a_reference_is_left_out_of_its_own_comparison(small: Path, rows: SmallBuild) -> None:
    code = rows.rows("solutions", solution_id=rows.id("7/c3"))[0]["code"].encode()
    placement = place(str(small), "train/7", code, FakeEngine())
    assert placement.references == 5
    assert "left out of its own comparison" in placement.notes[0]


class Broken(FakeEngine):
    """Gives no verdict on anything."""

    def execute(self, request: Request) -> Any:
        return (Result(test.id, Status.INFRASTRUCTURE, detail="node lost") for test in request.tests)


def test_no_verdict_is_an_error_and_not_a_rank(small: Path) -> None:
    with pytest.raises(ServiceError, match="32 tests came back without a verdict: node lost"):
        place(str(small), "train/7", b"", Broken())


class Later(FakeEngine):
    """The same service in another epoch."""

    def execute(self, request: Request) -> Any:
        from dataclasses import replace

        return (replace(result, epoch=3) for result in super().execute(request))


def test_another_epoch_is_said_and_a_known_calibration_used(small: Path, tmp_path: Path) -> None:
    placement = place(str(small), "train/7", program(duration=1.0), Later())
    assert "no calibration maps durations of epoch 0 to epoch 3" in placement.notes[0]
    build = SmallBuild()
    fit = {"fit_id": "f1", "family": "affine", "coefficients": [0.5, 0.0], "from_epoch": 0, "to_epoch": 3}
    build.tables["calibrations"] = [fit | {"n_pairs": 9, "cv_r2": None, "cv_rmse_s": None, "train_r2": None}]
    corrected = place(str(build.write(tmp_path)), "train/7", program(duration=1.0), Later())
    assert corrected.notes == ["references corrected by calibration f1 (affine)"]
    pairs = zip(placement.tests, corrected.tests, strict=True)
    ratios = [b.reference_median_s / a.reference_median_s for a, b in pairs if a.reference_median_s is not None]
    assert ratios == pytest.approx([0.5] * 15)


def test_rank_command(run: Run, small: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_bytes(program(duration=1e-6))
    arguments = ("rank", small, "--solution", mine, "--ces", "fake", "--problem")
    outcome = run(*arguments, "train/7")
    assert outcome.code == 0
    assert "correct; 0 of 6 references are ahead: leaderboard percentile 0.0%" in outcome.out
    assert len(json.loads(run(*arguments, "train/7", "--json").out)["tests"]) == 32
    mine.write_bytes(program(crash=1.0))
    assert "not correct, so it has no rank" in run(*arguments, "train/7").out
    for problem, words in (("train/99", "no such problem"), ("train/2", "filter_correctness dropped it")):
        outcome = run(*arguments, problem)
        assert outcome.code == 2
        assert words in outcome.err
    assert run("rank", small, "--problem", "train/7", "--solution", tmp_path / "none.py").code == 2
    assert "is unknown" in run("rank", small, "--problem", "train/7", "--solution", mine, "--ces", "nothing").err
