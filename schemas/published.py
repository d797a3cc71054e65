"""Row types of the published configurations: one problem a row, nested so that a viewer shows what belongs together."""

import pyarrow as pa

_TEXT, _SECONDS, _COUNT = pa.string(), pa.float64(), pa.int64()

SOLUTION = pa.struct([("solution_id", _TEXT), ("language", _TEXT), ("code", pa.large_string())])
"""One program."""

TEST = pa.struct(
    [
        ("test_id", _TEXT),
        ("category", _TEXT),
        ("input", pa.large_string()),
        ("output", pa.large_string()),
        ("n_chars", _COUNT),
        ("durations_s", pa.list_(_SECONDS)),
        ("duration_stds_s", pa.list_(_SECONDS)),
        ("statuses", pa.list_(_TEXT)),
    ]
)
"""One test. The three lists are aligned with the row's `solutions`; seconds, null where nothing was measured."""

_PROBLEM = [
    ("problem_id", _TEXT),
    ("name", _TEXT),
    ("source", _TEXT),
    ("difficulty", _TEXT),
    ("statement", _TEXT),
    ("cf_contest_id", _COUNT),
    ("cf_index", _TEXT),
    ("cf_rating", _COUNT),
    ("cf_tags", pa.list_(_TEXT)),
    ("time_limit_s", _SECONDS),
    ("memory_limit_bytes", _COUNT),
    ("cluster_id", _TEXT),
    ("pool", _TEXT),
    ("robust_cv", _SECONDS),
    ("solutions", pa.list_(SOLUTION)),
    ("tests", pa.list_(TEST)),
]

POOL_SCHEMA = pa.schema(_PROBLEM)
"""`rl_pool`, `rl_pool_mixed`, `rl_pool_complement`: correct solutions only."""

CORPUS_SCHEMA = pa.schema([*_PROBLEM[:-1], ("incorrect_solutions", pa.list_(SOLUTION)), _PROBLEM[-1]])
"""`cleaned` and `lightweight`: incorrect solutions too."""

PUBLISHED = {
    "rl_pool": POOL_SCHEMA,
    "rl_pool_mixed": POOL_SCHEMA,
    "rl_pool_complement": POOL_SCHEMA,
    "cleaned": CORPUS_SCHEMA,
    "lightweight": CORPUS_SCHEMA,
}
"""Configuration name → row type."""
