"""The compose file: its form, and that what it names is there."""

import re
import subprocess
from importlib import util
from pathlib import Path

import jsonschema
import yaml

from . import binary, grace
from .paths import COMPOSE, DASHBOARDS, RULES

ROLES = ("ingest", "match", "deliver", "control")
VARIABLE = re.compile(r"\$\{[A-Z_]+:-([^}]*)\}")


def load():
    """With its variables at their defaults."""
    return yaml.safe_load(VARIABLE.sub(r"\1", (COMPOSE / "compose.yaml").read_text()))


def schema():
    """That of the Compose Specification, in the package docker-compose, which is not imported: its dependencies are not here."""
    found = util.find_spec("compose")
    text = Path(found.submodule_search_locations[0], "config", "compose_spec.json").read_text()
    return yaml.safe_load(text)


def check(report):
    compose = load()
    # `name` is younger than the schema.
    body = {key: value for key, value in compose.items() if key != "name"}
    errors = [f"{error.json_path}: {error.message}" for error in jsonschema.Draft7Validator(schema()).iter_errors(body)]
    report.check(not errors, f"compose.yaml: {errors}")
    services = compose["services"]
    for name, service in services.items():
        check_service(report, f"compose.yaml: {name}", service, compose)
    for role in ROLES:
        check_role(report, f"compose.yaml: {role}", role, services[role])
    check_redis(report, services["redis"])
    check_prometheus(report, services)
    check_grafana(report, services)


def check_redis(report, service):
    """Its keys have expiries, and every other policy throws leases away when it is full."""
    options = dict(zip(service["command"][1::2], service["command"][2::2]))
    report.check(
        options.get("--maxmemory-policy") == "noeviction", f"compose.yaml: redis throws keys away when it is full: {options}"
    )


def check_service(report, where, service, compose):
    for dependency, how in service.get("depends_on", {}).items():
        known = compose["services"].get(dependency)
        report.check(known, f"{where}: depends on {dependency}, which is not there")
        report.check(
            "healthcheck" in (known or {}) or how["condition"] != "service_healthy",
            f"{where}: {dependency} has no health check",
        )
    for mount in service.get("volumes", ()):
        source = mount.split(":")[0]
        if source.startswith("."):
            report.check((COMPOSE / source).exists(), f"{where}: {source} is not there")
        else:
            report.check(source in compose["volumes"], f"{where}: volume {source} is not declared")
    for port in service.get("ports", ()):
        report.check(port.startswith("127.0.0.1:"), f"{where}: port {port} is open to other machines")
    if "build" in service:
        report.check(
            (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).exists(),
            f"{where}: its Dockerfile is not there",
        )
    else:
        report.check(
            re.search(r":[0-9][^:]*$|:v[0-9][^:]*$", service["image"]),
            f"{where}: image {service['image']} has no version",
        )


def check_role(report, where, role, service):
    """The binary accepts file and environment as they are in the container."""
    report.check(service["command"] == [role], f"{where}: runs {service['command']}")
    env = {key: str(value) for key, value in service["environment"].items()}
    env.pop("MAILRAIL_CONFIG")
    answer = binary.run("check-config", str(COMPOSE / "mailrail.toml"), "--role", role, env=env)
    report.check(answer.returncode == 0, f"{where}: mailrail check-config: {answer.stderr.strip()}")
    report.check("kafka:19092" in answer.stdout, f"{where}: {answer.stdout.strip()}")
    grace.check_compose(report, where, service, (COMPOSE / "mailrail.toml").read_text())
    report.check(
        "MAILRAIL__LOG__KAFKA__SESSION_TIMEOUT" not in env, f"{where}: say the session in mailrail.toml: its grace follows from it"
    )
    test = service.get("healthcheck", {}).get("test", [])
    report.check(test[1:] == ["/usr/local/bin/mailrail", "health"], f"{where}: its health check is {test}")
    report.check(binary.run(test[-1], "--help").returncode == 0, f"{where}: there is no command `mailrail {test[-1]}`")


def check_prometheus(report, services):
    path = COMPOSE / "prometheus.yaml"
    answer = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", str(path)], capture_output=True, text=True, timeout=60
    )
    report.check(answer.returncode == 0, f"prometheus.yaml: {answer.stdout} {answer.stderr}")
    config = yaml.safe_load(path.read_text())
    (job,) = config["scrape_configs"]
    report.check(job["job_name"] == "mailrail", "prometheus.yaml: rules go by the job mailrail")
    seen = {}
    for group in job["static_configs"]:
        for target in group["targets"]:
            host, port = target.split(":")
            report.check(
                services.get(host, {}).get("environment", {}).get("MAILRAIL__ADMIN__LISTEN") == f"0.0.0.0:{port}",
                f"prometheus.yaml: {target} is no admin port",
            )
            seen[host] = group["labels"]
    report.check(
        seen == {role: {"component": role, "pipeline": "default"} for role in ROLES},
        f"prometheus.yaml: targets are {seen}",
    )
    mounts = {
        mount.split(":")[1]: (COMPOSE / mount.split(":")[0]).resolve()
        for mount in services["prometheus"]["volumes"]
        if mount.startswith(".")
    }
    report.check(
        mounts["/etc/prometheus/rules"] == RULES.resolve() and config["rule_files"] == ["rules/*.yaml"],
        "prometheus.yaml: the rules are not mounted where it reads them",
    )


def check_grafana(report, services):
    mounts = {
        mount.split(":")[1]: (COMPOSE / mount.split(":")[0]).resolve() for mount in services["grafana"]["volumes"]
    }
    provider = yaml.safe_load((COMPOSE / "grafana" / "dashboards.yaml").read_text())["providers"][0]
    report.check(
        mounts[provider["options"]["path"]] == DASHBOARDS.resolve(),
        "grafana: the dashboards are not mounted where it reads them",
    )
    source = yaml.safe_load((COMPOSE / "grafana" / "datasources.yaml").read_text())["datasources"][0]
    report.check(
        source["type"] == "prometheus" and source["url"] == "http://prometheus:9090",
        "grafana: its data source is not the Prometheus of this file",
    )
