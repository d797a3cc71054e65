"""A real vLLM on CPU: servers, and this package inside the environment that has vLLM."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
START_S = 400  # 34-56 s on two idle cores

# One thread an engine: two on shared cores were measured to be twelve times slower. No hub is ever asked.
ENVIRONMENT = {
    **os.environ,
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONPATH": str(ROOT),
}
# Without chunked prefill: a seeded request whose prompt is split into chunks kills the CPU engine of this version
# ("CPU Generator does not use offset": it rewinds the generator, which only CUDA's can do).
ENGINE_FLAGS = ("--enforce-eager", "--no-enable-chunked-prefill", "--max-num-seqs", "32")


def pytest_collection_modifyitems(items):
    if not PYTHON.exists():
        for item in items:
            if "vllm" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no .venv-vllm; `make test-vllm` makes it"))


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folder with the models, made once: tiny (random) and smol (real weights)."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("tiny", "smol"):
        command = [PYTHON, ROOT / "tests" / "vllm" / "make_models.py", name, folder / name]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
    return folder


@contextlib.contextmanager
def vllm_serve(model: Path, name: str, log: Path, max_model_len: int):
    """`vllm serve` as a process of its own; yields its address once it answers."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    length = ("--max-model-len", str(max_model_len), "--max-num-batched-tokens", str(max_model_len))
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), *ENGINE_FLAGS, *length]
    command += ["--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)]
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=ENVIRONMENT, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        try:
            wait_until_it_answers(f"http://127.0.0.1:{port}/v1/models", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 15)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def wait_until_it_answers(url: str, process: subprocess.Popen, log: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < START_S:
        assert process.poll() is None, f"vLLM ended at its start:\n{log.read_text()[-3000:]}"
        try:
            with urllib.request.urlopen(url, timeout=2):
                print(f"vLLM answers after {time.monotonic() - started:.0f} s", file=sys.stderr)
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"vLLM does not answer within {START_S} s:\n{log.read_text()[-3000:]}")
