"""Dashboards: as their source says, complete, provisionable, and only on metrics that there are."""

import json
import re
import subprocess
import tempfile

import yaml

from . import rules
from .paths import DASHBOARDS

VARIABLES = {"$__rate_interval": "5m", "$namespace": ".*", "$pipeline": ".*"}
UNITS = {"ops", "reqps", "s", "short", "percentunit", "bytes"}
BYTES_MAX = 512 * 1024


def check(report):
    paths = sorted(DASHBOARDS.glob("*.json"))
    report.check(len(paths) == 3, f"deploy/grafana has {len(paths)} dashboards")
    uids = []
    for path in paths:
        dashboard = json.loads(path.read_text())
        uids.append(dashboard["uid"])
        check_dashboard(report, path, dashboard)
    report.check(len(uids) == len(set(uids)), "two dashboards have one uid")


def check_dashboard(report, path, dashboard):
    where, text = path.name, path.read_text()
    report.check(len(text) < BYTES_MAX, f"{where}: too large for a ConfigMap")
    report.check("__inputs" not in dashboard and "${DS_" not in text, f"{where}: provisioning does not resolve inputs")
    report.check("id" not in dashboard and dashboard["schemaVersion"] >= 39, f"{where}: an id, or an old schema")
    report.check("mailrail" in dashboard["tags"], f"{where}: the tag that dashboards are linked by is missing")
    variables = {it["name"]: it for it in dashboard["templating"]["list"]}
    report.check(variables["datasource"]["type"] == "datasource", f"{where}: no variable for the data source")
    for name in ("namespace", "pipeline"):
        report.check(variables[name]["refresh"] == 2, f"{where}: variable {name} is not brought up to date")
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    titles = [panel["title"] for panel in panels]
    report.check(len(titles) == len(set(titles)), f"{where}: two panels have one title")
    overlaps(report, where, dashboard["panels"])
    for panel in panels:
        check_panel(report, f"{where}: {panel['title']}", panel)
    expressions = [(f"{where}: {panel['title']}", target["expr"]) for panel in panels for target in panel["targets"]]
    valid(report, where, [expression for _, expression in expressions])
    rules.expressions(report, "panel", [(name, substituted(expression)) for name, expression in expressions])


def check_panel(report, where, panel):
    report.check(panel.get("description"), f"{where}: no description")
    report.check(
        panel["fieldConfig"]["defaults"].get("unit") in UNITS,
        f"{where}: unit {panel['fieldConfig']['defaults'].get('unit')}",
    )
    report.check(panel["targets"], f"{where}: no target")
    for one in (panel, *panel["targets"]):
        report.check(one["datasource"]["uid"] == "${datasource}", f"{where}: a fixed data source")
    for target in panel["targets"]:
        windows = re.findall(r"\b(?:rate|irate)\([^()]*\[([^\]]+)\]", target["expr"])
        report.check(
            all(window == "$__rate_interval" for window in windows),
            f"{where}: rate over {windows}, not over $__rate_interval",
        )


def overlaps(report, where, panels):
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        report.check(not cells & taken and at["x"] + at["w"] <= 24, f"{where}: {panel['title']} lies on another panel")
        taken |= cells


def substituted(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def valid(report, where, expressions):
    """Each expression as a recording rule, for promtool to parse."""
    made = [
        {"record": f"panel:{index}", "expr": substituted(expression)} for index, expression in enumerate(expressions)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "panels", "rules": made}]}, file)
        file.flush()
        answer = subprocess.run(
            ["promtool", "check", "rules", "--lint=none", file.name], capture_output=True, text=True, timeout=60
        )
    report.check(
        answer.returncode == 0 and "$" not in "".join(it["expr"] for it in made),
        f"{where}: {answer.stdout.strip()} {answer.stderr.strip()}",
    )
