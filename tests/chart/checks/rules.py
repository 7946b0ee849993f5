"""Rules and alerts: valid, tested, each with a page, and only on metrics that there are."""

import re
import subprocess

import yaml

from . import catalogue, promql
from .paths import BINARY, ROOT, RULE_TESTS, RULES, RUNBOOKS

PARTS = ("## What it means", "## What to look at", "## What to do")
SEVERITIES = {"page", "ticket", "info"}
PROMTOOL_SECONDS_MAX = 300


def groups():
    return [group for path in sorted(RULES.glob("*.yaml")) for group in yaml.safe_load(path.read_text())["groups"]]


def recorded():
    return {rule["record"] for group in groups() for rule in group["rules"] if "record" in rule}


def promtool(report, *arguments):
    answer = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=PROMTOOL_SECONDS_MAX
    )
    report.check(
        answer.returncode == 0,
        f"promtool {arguments[0]} {arguments[1]}: {answer.stdout.strip()} {answer.stderr.strip()}",
    )


def check(report):
    promtool(report, "check", "rules", *sorted(RULES.glob("*.yaml")))
    tests = sorted(RULE_TESTS.glob("*.yaml"))
    for path in tests:
        promtool(report, "test", "rules", path)
    tested = "\n".join(path.read_text() for path in tests)
    alerts = [rule for group in groups() for rule in group["rules"] if "alert" in rule]
    report.check(len(alerts) == len({rule["alert"] for rule in alerts}), "two alerts have one name")
    for rule in alerts:
        check_alert(report, rule, tested)
    expressions(
        report,
        "rule",
        [(rule.get("alert") or rule["record"], rule["expr"]) for group in groups() for rule in group["rules"]],
    )
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    extra = pages - {rule["alert"] for rule in alerts}
    report.check(not extra, f"docs/operate/runbooks has pages without an alert: {sorted(extra)}")
    scrape(report)


def check_alert(report, rule, tested):
    name = rule["alert"]
    report.check(rule["labels"].get("severity") in SEVERITIES, f"{name}: severity is {rule['labels'].get('severity')}")
    for part in ("summary", "description", "runbook_url"):
        report.check(rule["annotations"].get(part), f"{name}: no {part}")
    fires = re.search(
        rf'alertname: {name}\n\s*exp_alerts|{name}\\?"?[^\n]*firing|\|?{name}\b[^\n]*alertstate="firing"', tested
    )
    report.check(fires, f"{name}: no test in deploy/prometheus/tests makes it fire")
    page = ROOT / rule["annotations"]["runbook_url"]
    if report.check(
        page.exists() and page.parent == RUNBOOKS and page.stem == name,
        f"{name}: its page {rule['annotations']['runbook_url']} is missing",
    ):
        text = page.read_text()
        for part in PARTS:
            report.check(part in text, f"{page.name}: no '{part}'")


def expressions(report, what, named):
    """Metrics and labels of expressions exist."""
    known, own = catalogue.series(), recorded()
    for name, expression in named:
        for metric, labels in promql.selectors(expression):
            if metric in own:
                continue
            if metric not in known:
                report.check(
                    catalogue.OTHERS.match(metric),
                    f"{what} {name}: there is no metric {metric} (docs/reference/metrics.md)",
                )
                continue
            unknown = labels - known[metric] - catalogue.SCRAPED_LABELS
            report.check(not unknown, f"{what} {name}: {metric} has no label {sorted(unknown)}")


def scrape(report):
    """The catalogue is what a real process shows. Families whose labels nothing has filled yet show nothing."""
    if not BINARY.exists():
        report.check(False, f"{BINARY} is missing: run `make build`, or name it with MAILRAIL=")
        return
    shown = catalogue.scraped()
    known = catalogue.series()
    for family in sorted(shown):
        own = [name for name in known if name in (family, f"{family}_total", f"{family}_bucket")]
        report.check(
            own, f"a real scrape shows {family}, which docs/reference/metrics.md does not have: run `make gen`"
        )
    # Families without labels are there from the start.
    sometimes = catalogue.without_sample()
    for name, labels in known.items():
        if not labels and not name.endswith(("_sum", "_count")) and name not in sometimes:
            report.check(
                name.removesuffix("_total") in shown,
                f"docs/reference/metrics.md has {name}, and a real scrape does not",
            )
