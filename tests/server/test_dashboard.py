"""The dashboard of Grafana and the compose file of deploy/, without their programs."""

import json
import re
from typing import Any

import yaml

from secl.server.settings import Limits
from tests.conftest import ROOT
from tests.server.conftest import Make, client_of, metrics_of

DEPLOY = ROOT / "deploy"
METRIC = r"\b(?:secl|process)_\w+"


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))["panels"]
    return found


def test_the_dashboard_shows_every_metric_of_the_server_and_no_other(make_service: Make) -> None:
    client = client_of(make_service(settings={"loop.accept": 0.5}))
    client.post("/v1/ask", json={"question": "Capital of France?", "options": ["Rome", "Paris"]})
    known = {name.partition("{")[0] for name in metrics_of(client)}
    shown = {name for each in panels() for target in each["targets"] for name in re.findall(METRIC, target["expr"])}
    assert shown <= known

    def families(names: set[str]) -> set[str]:
        return {re.sub("_(bucket|count|sum|created|total)$", "", name) for name in names if name.startswith("secl_")}

    assert families(shown) == families(known)
    places = {(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels()}
    assert len(places) == len({each["title"] for each in panels()}) == len(panels())


def test_the_compose_file_starts_the_image_of_the_container_file_with_the_dashboard() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert set(compose) == {"name", "services", "configs", "secrets", "volumes"}
    known = {"image", "init", "restart", "stop_grace_period", "ports", "volumes", "configs", "secrets", "environment"}
    for service in compose["services"].values():
        assert set(service) <= known
        assert {each["source"] for each in service.get("configs", ())} <= set(compose["configs"])
        assert {*service.get("secrets", ())} <= set(compose["secrets"])
        assert {each.partition(":")[0] for each in service.get("volumes", ())} <= set(compose["volumes"])
    assert all(each["source"] in compose["configs"] for each in compose["services"]["grafana"]["configs"])
    assert (DEPLOY / compose["configs"]["dashboard"]["file"]).is_file()
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    secl = compose["services"]["secl"]
    assert f"--tag {secl['image']} ." in container
    assert f"EXPOSE {secl['ports'][0].rpartition(':')[2]}" in container
    assert secl["volumes"][0].partition(":")[2] in container
    assert int(secl["stop_grace_period"].removesuffix("s")) > Limits().timeout
    inline = {name: yaml.safe_load(each["content"]) for name, each in compose["configs"].items() if "content" in each}
    (job,) = inline["prometheus"]["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["secl:8080"]}]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{compose['services']['prometheus']['secrets'][0]}"
    assert {each["datasource"]["uid"] for each in panels()} == {inline["datasource"]["datasources"][0]["uid"]}
