"""Table `clusters`: near-duplicate problems inside the corpus."""

import pyarrow as pa

from schemas.table import Column, ForeignKey, Table

CLUSTERS = Table(
    name="clusters",
    key=("problem_id",),
    description="Near-duplicate groups inside the corpus (e.g. Div. 1 / Div. 2 twins); a split never divides one.",
    columns=(
        Column(
            "problem_id", pa.string(), "The problem; every survivor of `dedup` has a row, alone in its cluster or not."
        ),
        Column("cluster_id", pa.string(), "The smallest problem_id of the cluster."),
    ),
    foreign_keys=(
        ForeignKey(("problem_id",), "problems"),
        ForeignKey(("cluster_id",), "clusters", ("problem_id",)),
    ),
    rules=(
        ("named by its smallest member", "cluster_id <= problem_id", "cluster_id is the cluster's smallest problem_id"),
    ),
)
