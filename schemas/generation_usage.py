"""Table `generation_usage`: what each generator attempt cost."""

import pyarrow as pa

from schemas.consensus import GENERATED_CAMPAIGNS
from schemas.table import Column, ForeignKey, Table

GENERATION_USAGE = Table(
    name="generation_usage",
    key=("problem_id", "campaign", "attempt"),
    description="Tokens, latency and price of each generator attempt that a live model answered.",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column("campaign", pa.string(), "Generation campaign.", accepted=GENERATED_CAMPAIGNS),
        Column("attempt", pa.int64(), "Attempt of that campaign, from 0.", minimum=0),
        Column("prompt_tokens", pa.int64(), "Tokens of the prompt.", nullable=True, minimum=0),
        Column("completion_tokens", pa.int64(), "Tokens of the answer.", nullable=True, minimum=0),
        Column("latency_s", pa.float64(), "Time from request to answer, in seconds.", nullable=True, minimum=0),
        Column("cost_usd", pa.float64(), "Price at the configured rates, in US dollars.", nullable=True, minimum=0),
        Column("model", pa.string(), "Model that answered."),
    ),
    foreign_keys=(ForeignKey(("problem_id", "campaign", "attempt"), "generator_attempts"),),
)
