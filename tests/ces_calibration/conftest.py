import pytest

from dmc_optim import ces
from tests.ces_calibration.artifact import PlantedService, build_artifact


@pytest.fixture
def layout(tmp_path):
    return build_artifact(tmp_path / "out")


@pytest.fixture
def planted(monkeypatch):
    """A service with the paper's map; commands connect to it whatever they ask for."""
    service = PlantedService(slope=0.63, offset_s=0.053, cv=0.05)
    monkeypatch.setattr(ces, "connect", lambda spec, **options: service, raising=False)
    return service
