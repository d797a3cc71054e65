"""The manifests are what the Kubernetes API takes, and say together what they have to."""

import importlib.metadata
import json
import re
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from kubernetes.client import models

from dmc_optim.cli.ces_serve import serve
from tests.ces_service.conftest import ROOT

DEPLOY = ROOT / "deploy"
KINDS = {
    ("v1", "Namespace"): "V1Namespace",
    ("v1", "Service"): "V1Service",
    ("apps/v1", "Deployment"): "V1Deployment",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "V2HorizontalPodAutoscaler",
    ("policy/v1", "PodDisruptionBudget"): "V1PodDisruptionBudget",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
}
SCALARS: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "datetime": {"type": "string"},
    "object": {"type": ["string", "integer", "object"]},  # IntOrString, and free forms
}
QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]i?)?$"}
KUBELET = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind"],
    "properties": {
        "apiVersion": {"const": "kubelet.config.k8s.io/v1beta1"},
        "kind": {"const": "KubeletConfiguration"},
        "cpuManagerPolicy": {"enum": ["none", "static"]},
        "cpuManagerPolicyOptions": {"type": "object", "additionalProperties": {"type": "string"}},
        "reservedSystemCPUs": {"type": "string", "pattern": r"^\d+(-\d+)?(,\d+(-\d+)?)*$"},
        "topologyManagerPolicy": {"enum": ["none", "best-effort", "restricted", "single-numa-node"]},
        "memoryManagerPolicy": {"enum": ["None", "Static"]},
    },
}


def schema_of(kind: str) -> dict[str, Any]:
    """JSON schema of a Kubernetes type, with all it refers to, from the API's own typed models: no unknown field,
    no missing one, no wrong type."""
    definitions: dict[str, Any] = {}

    def of(name: str) -> dict[str, Any]:
        if name in SCALARS:
            return SCALARS[name]
        if match := re.fullmatch(r"list\[(.+)\]", name):
            return {"type": "array", "items": of(match[1])}
        if match := re.fullmatch(r"dict\([^,]+, ?(.+)\)|dict\[[^,]+, ?(.+)\]", name):
            return {"type": "object", "additionalProperties": of(match[1] or match[2])}
        if name not in definitions:
            definitions[name] = {}
            model = getattr(models, name)
            properties = {
                model.attribute_map[field]: QUANTITY_MAP if (name, field) in QUANTITIES else of(kind)
                for field, kind in model.openapi_types.items()
            }
            definitions[name] = {
                "type": "object",
                "additionalProperties": False,
                "properties": properties,
                "required": [model.attribute_map[field] for field in required_fields(model)],
            }
        return {"$ref": f"#/$defs/{name}"}

    return {**of(kind), "$defs": definitions}


QUANTITIES = {("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests")}
QUANTITY_MAP = {"type": "object", "additionalProperties": QUANTITY}


def required_fields(model: Any) -> list[str]:
    """Fields whose setter refuses None."""
    needed = []
    empty = model(local_vars_configuration=_unchecked())
    empty.local_vars_configuration.client_side_validation = True
    for field in model.openapi_types:
        try:
            setattr(empty, field, None)
        except ValueError:
            needed.append(field)
    return needed


def _unchecked() -> Any:
    from kubernetes.client import Configuration

    configuration = Configuration()
    configuration.client_side_validation = False
    return configuration


def documents() -> list[dict[str, Any]]:
    names = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())["resources"]
    return [doc for name in names for doc in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())]


def one(kind: str) -> dict[str, Any]:
    return next(document for document in documents() if document["kind"] == kind)


def container() -> dict[str, Any]:
    return dict(one("Deployment")["spec"]["template"]["spec"]["containers"][0])


@pytest.mark.parametrize(
    "document", documents(), ids=lambda document: f"{document['kind']}-{document['metadata']['name']}"
)
def test_manifests_are_what_the_api_takes(document: dict[str, Any]) -> None:
    schema = schema_of(KINDS[document["apiVersion"], document["kind"]])
    jsonschema.Draft202012Validator(schema).validate(document)


def test_the_schemas_tell_wrong_manifests() -> None:
    validator = jsonschema.Draft202012Validator(schema_of("V1Deployment"))
    good = json.dumps(one("Deployment"))
    for right, wrong in [
        ('"selector"', '"selectors"'),
        ('"containerPort": 8000', '"containerPort": "8000"'),
        ('"periodSeconds": 2', '"periodSecond": 2'),
        ('"name": "ces", "image"', '"image"'),
        ('"memory": "7Gi"', '"memory": "7 gigabytes"'),
        ('"drop": ["ALL"]', '"drop": "ALL"'),
    ]:
        assert right in good
        assert not validator.is_valid(json.loads(good.replace(right, wrong))), wrong
    assert validator.is_valid(json.loads(good))


def test_every_manifest_is_listed() -> None:
    listed = set(yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())["resources"])
    there = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    assert there - listed == {"kustomization.yaml", "kubelet.yaml"}


def test_the_kubelet_notes_are_valid() -> None:
    jsonschema.validate(yaml.safe_load((DEPLOY / "kubernetes/kubelet.yaml").read_text()), KUBELET)


def test_pods_get_whole_cpus_and_are_guaranteed() -> None:
    resources = container()["resources"]
    assert resources["requests"] == resources["limits"]
    assert set(resources["limits"]) == {"cpu", "memory"}
    slots = next(int(argument.split("=")[1]) for argument in container()["args"] if argument.startswith("--slots="))
    assert int(resources["limits"]["cpu"]) == slots + 1
    assert int(resources["limits"]["memory"].removesuffix("Gi")) >= slots + 2


def test_selectors_ports_and_probes_agree() -> None:
    deployment = one("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"]["matchLabels"], one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]]
    selectors += [document["spec"]["selector"] for document in documents() if document["kind"] == "Service"]
    selectors.append(one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert "--port=8000" in container()["args"] and ports == {"http": 8000}
    for document in documents():
        if document["kind"] == "Service":
            assert [port["targetPort"] for port in document["spec"]["ports"]] == ["http"]
    assert container()["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container()["livenessProbe"]["httpGet"]["path"] == "/healthz"
    target = one("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", one("Deployment")["metadata"]["name"])
    assert {document["metadata"].get("namespace", "dmc-optim") for document in documents()} == {"dmc-optim"}


def test_a_node_has_time_to_drain() -> None:
    drain = next(float(a.split("=")[1]) for a in container()["args"] if a.startswith("--drain-s="))
    pause = int(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    assert one("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > drain + pause


def test_the_mounts_have_volumes() -> None:
    volumes = {volume["name"] for volume in one("Deployment")["spec"]["template"]["spec"]["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    assert set(mounts) == volumes
    assert f"--spool-dir={mounts['spool']}" in container()["args"]
    assert f"--token-file={mounts['token']}/token" in container()["args"]


@pytest.mark.parametrize("source", ["manifest", "image"])
def test_the_arguments_are_options_of_the_command(source: str) -> None:
    if source == "manifest":
        arguments = container()["args"]
    else:
        arguments = json.loads(re.search(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[1])  # type: ignore[index]
    known = {option for parameter in serve.params for option in parameter.opts}
    assert {argument.split("=")[0] for argument in arguments if argument.startswith("--")} <= known
    assert CliRunner().invoke(serve, ["--help"]).exit_code == 0


def test_the_image_copies_what_exists() -> None:
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _ = [word for word in line.split()[1:] if not word.startswith("--")]
            for source in sources:
                assert (ROOT / source).exists(), source


def test_the_entry_point_is_a_shell_script_that_ends_in_the_service() -> None:
    script = DEPLOY / "entrypoint.sh"
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert script.read_text().splitlines()[-1] == 'exec dmc-optim ces serve "$@"'
    assert script.stat().st_mode & 0o111


def _closure(names: list[str]) -> set[str]:
    """Distributions and all that they require on this platform, in normal form."""
    found: set[str] = set()
    while names:
        name = canonical(names.pop())
        if name in found:
            continue
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or version of Python
        found.add(name)
        names += [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in requirements if "extra ==" not in line]
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


WITHOUT = """
import importlib.abc, json, sys
class Absent(importlib.abc.MetaPathFinder):
    def __init__(self, names): self.names = names
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
absent = set(json.loads(sys.argv[1]))
for name in list(sys.modules):
    if name.split(".")[0] in absent:
        del sys.modules[name]
sys.meta_path.insert(0, Absent(absent))
import dmc_optim.ces.client, dmc_optim.ces.engine.embedded, dmc_optim.ces.service.server, dmc_optim.cli.ces
import dmc_optim.cli.main, httptools, uvloop
from dmc_optim.cli.ces_serve import serve
serve(["--help"])
"""


def test_a_node_runs_on_what_the_image_installs() -> None:
    lines = (DEPLOY / "requirements-node.txt").read_text().splitlines()
    installed = _closure([re.split(r"[=<>]", line)[0] for line in lines if not line.startswith("#")])
    ours = {"dmc_optim", "schemas", "transforms", "pipeline", "tests", "dmc-optim"}
    absent = [
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if module not in ours and not {canonical(distribution) for distribution in distributions} & installed
    ]
    assert {"pyarrow", "apache_beam", "pandas"} <= set(absent)
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(absent)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "--drain-s" in run.stdout


def test_the_image_installs_the_versions_of_the_package() -> None:
    package = (ROOT / "setup.py").read_text()
    for line in (DEPLOY / "requirements-node.txt").read_text().splitlines():
        if not line.startswith("#"):
            assert f'"{line}' in package, line
