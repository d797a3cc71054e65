"""From a loaded campaign to the figures of the paper's Tables 31-33, and to rows of `calibrations`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.sink import ParquetSink
from dmc_optim.ces.calibration.agreement import RankAgreement, profile, rank_agreements
from dmc_optim.ces.calibration.fit import Array, Fit, Weighting, fit_families, fold_coefficients
from dmc_optim.ces.calibration.load import Loaded
from dmc_optim.ces.calibration.noise import (
    ShortRunNoise,
    VarianceDecomposition,
    decompose_variance,
    short_run_noise,
)
from dmc_optim.ces.calibration.runs import pool
from dmc_optim.errors import ArtifactError
from schemas import TABLES
from schemas.enums import CalibrationFamily

RESIDUAL_POINTS = 4000  # of the residual plots; all pairs enter the fits


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything said about one campaign and one epoch of stored durations.

    chosen: the family that corrects durations. agreements: by fitted family. residuals: (n,) stored and (n,) fresh
    seconds, a seeded subsample of the pairs.
    """

    loaded: Loaded
    chosen: CalibrationFamily
    fits: dict[CalibrationFamily, Fit]
    unfitted: dict[CalibrationFamily, str]
    noise: ShortRunNoise
    variance: VarianceDecomposition
    agreements: dict[CalibrationFamily, RankAgreement]
    profile: dict[str, float]
    n_pairs: int
    censored_pairs: int
    ratio: tuple[float, float, float] | None  # fresh / stored: smallest, mean and largest of the problems' means
    residuals: tuple[Array, Array]

    @property
    def agreement(self) -> RankAgreement | None:
        """That of the chosen family; None when it could not be fitted."""
        return self.agreements.get(self.chosen)

    @property
    def warning(self) -> str | None:
        """A sentence when the chosen correction ranks worse than no correction, else None."""
        ranks = {
            family: a.spearman_all_after for family, a in self.agreements.items() if a.spearman_all_after is not None
        }
        before = self.agreement.spearman_all_before if self.agreement else None
        if before is None or self.chosen not in ranks or ranks[self.chosen] >= before:
            return None
        best = max(ranks, key=lambda family: ranks[family])
        advice = (
            f"--family {best.value} ranks best ({ranks[best]:.3f})"
            if ranks[best] > before
            else "no family ranks better than no correction"
        )
        return (
            f"the {self.chosen.value} correction ranks worse than the stored durations as they are (Spearman "
            f"{ranks[self.chosen]:.3f} after, {before:.3f} before): an error that is small in seconds can be large for "
            f"short tests; {advice}"
        )

    @property
    def fit(self) -> Fit:
        """The chosen fit. Raises ArtifactError, saying why, when there is none."""
        if self.chosen not in self.fits:
            raise ArtifactError(
                f"{self.loaded.campaign}: {self.unfitted.get(self.chosen, f'{self.chosen} was not fitted')}"
            )
        return self.fits[self.chosen]


def analyse(
    loaded: Loaded,
    chosen: CalibrationFamily = CalibrationFamily.AFFINE,
    seed: int = 0,
    weighting: Weighting = Weighting.NONE,
) -> Analysis:
    """Fits, noise, decomposition and rank agreement of one loaded campaign. Pure."""
    problems = loaded.problems
    pairs = pool(problems)
    fits, unfitted = fit_families(pairs, weighting)
    folds = {family: fold_coefficients(pairs, family, weighting) for family in fits}
    keep = np.random.default_rng(seed).permutation(len(pairs))[:RESIDUAL_POINTS]
    means = [float(np.mean(p.mean[p.usable] / p.stored[p.usable])) for p in problems if p.usable.any()]
    return Analysis(
        loaded,
        chosen,
        fits,
        unfitted,
        short_run_noise(problems, seed),
        decompose_variance(problems),
        rank_agreements(problems, folds, seed),
        profile(problems, seed),
        n_pairs=len(pairs),
        censored_pairs=sum(int((p.censored & np.isfinite(p.stored)).sum()) for p in problems),
        ratio=(min(means), float(np.mean(means)), max(means)) if means else None,
        residuals=(pairs.stored[keep], pairs.fresh[keep]),
    )


def calibration_rows(analyses: Sequence[Analysis]) -> list[dict[str, Any]]:
    """Rows of `calibrations`: every fitted family of every analysis, named campaign-NNN/eFROM-eTO/family[/relative]."""
    return [
        {
            "fit_id": _fit_id(a.loaded, fit),
            "family": family.value,
            "coefficients": list(fit.coefficients),
            "cv_r2": fit.cv_r2,
            "cv_rmse_s": fit.cv_rmse_s,
            "train_r2": fit.train_r2,
            "from_epoch": a.loaded.from_epoch,
            "to_epoch": a.loaded.to_epoch,
            "n_pairs": fit.n_pairs,
        }
        for a in analyses
        for family, fit in a.fits.items()
    ]


def _fit_id(loaded: Loaded, fit: Fit) -> str:
    name = f"{loaded.campaign}/e{loaded.from_epoch}-e{loaded.to_epoch}/{fit.family.value}"
    return name if fit.weighting is Weighting.NONE else f"{name}/{fit.weighting.value}"


def write_calibrations(layout: Layout, analyses: Sequence[Analysis]) -> str:
    """Write the fits of one campaign into `calibrations`, replacing an earlier fit of the same campaign; the path.

    The file is listed in stages/calibrate.json as a stage would list its own.
    """
    number = int(analyses[0].loaded.campaign.rsplit("-", 1)[1])
    path = layout.table_file("calibrations", "calibrate", number)
    metadata = {"stage": "calibrate", "campaign": analyses[0].loaded.campaign}
    sink = ParquetSink(layout, path, TABLES["calibrations"].schema, metadata)
    for row in sorted(calibration_rows(analyses), key=lambda row: str(row["fit_id"])):
        sink.write(row)
    if not sink.close():
        raise ArtifactError(f"{layout.out}: no family could be fitted on {analyses[0].loaded.campaign}")
    names = sorted(p.rsplit("/", 1)[1] for p in layout.glob("tables/calibrations/calibrate-*.parquet"))
    layout.write_json(layout.stage_file("calibrate"), {"stage": "calibrate", "files": {"calibrations": names}})
    return path
