"""Package definition; the file a Beam runner stages for its workers (`--setup_file ./setup.py`)."""

from pathlib import Path

from setuptools import find_packages, setup

CORE = [
    "apache-beam[gcp]==2.77.0",  # unpinned, a conflict makes resolvers fall back by years
    "pyarrow==25.0.1",
    "pandas==3.1.1",
    "numpy==2.4.6",
    "datasets==5.2.0",
    "huggingface-hub>=1.31,<3",
    "scipy==1.17.1",
    "click==8.5.1",
    "duckdb==2.0.1",
    "fsspec>=2026.1",
    "gcsfs>=2026.1",  # a gs:// output directory, here and on workers
    "datasketch>=1.6",
    "rich>=13",
    "jinja2>=3.1",
    "plotly>=6",
    "fastapi>=0.115",
    "uvicorn>=0.30",
    "uvloop>=0.20; sys_platform != 'win32'",
    "httptools>=0.6",
    "httpx2>=2.10",  # the maintained continuation of httpx
    "httpx>=0.27",
    "prometheus-client>=0.20",
    "sortedcontainers>=2.4",  # importable by solutions, with numpy
]
VLLM = ["vllm==0.26.0"]  # for GPUs; 0.25 to 0.32 can sit beside Beam (0.33 wants pillow 13)
DEV = [
    "pytest>=8",
    "pytest-timeout>=2.3",
    "hypothesis>=6.100",
    "ruff>=0.6",
    "mypy>=1.11",
    "import-linter>=2",
    "schemathesis>=4",
    "jsonschema>=4",
    "types-jsonschema",
    "kubernetes>=34,<37",  # its typed models check the manifests; 37 conflicts with Beam over python-dateutil
    "PyYAML>=6",
    "types-PyYAML",
    "psutil>=6",
]

setup(
    name="dmc-optim",
    version="0.1.0",
    description="Code-optimization RL data: build, measure, rank and reward",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["schemas*", "dmc_optim*", "transforms*", "pipeline*"]),
    package_data={"dmc_optim": ["**/*.md", "**/*.txt", "**/*.json", "**/*.jinja", "**/*.html"]},
    install_requires=CORE,
    extras_require={"vllm": VLLM, "dev": DEV},
    entry_points={"console_scripts": ["dmc-optim=dmc_optim.cli.main:main"]},
)
