"""How many executions a stage would take if every solution ran on every test: what early stops save."""

from schemas.enums import ORIGINAL_CATEGORIES, Category, Stage
from transforms.context import StageContext
from transforms.survivors import survivors

_CATEGORIES: dict[Stage, tuple[Category, ...]] = {
    Stage.VALIDATE: ORIGINAL_CATEGORIES,
    Stage.FILTER_CORRECTNESS: (Category.CORRECTNESS,),
    Stage.FILTER_OPTIMIZATION: (Category.OPTIMIZATION,),
}


def exhaustive_pairs(context: StageContext) -> int:
    """Solutions × tests of the stage's campaign, over the problems that entered it."""
    categories = _CATEGORIES.get(context.stage, ())
    return sum(
        len(state.solutions) * len(state.tests_of(*categories))
        for shard in range(context.shards)
        for state in survivors(context, shard).values()
    )
