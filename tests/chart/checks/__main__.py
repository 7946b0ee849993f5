"""`python -m checks`: all checks. `python -m checks write`: writes what is generated."""

import sys

import yaml

from . import (
    assertions,
    binary,
    compose,
    dashboards,
    generated,
    pages,
    refusals,
    rendering,
    rules,
    schemas,
    selftest,
    variants,
)
from .paths import CHART
from .report import Report


def values_files():
    return {path.name: yaml.safe_load(path.read_text()) for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def check_values_file(report, chart, custom, name, values):
    report.progress(f"helm/mailrail/ci/{name} ...")
    report.add("values_files")
    for version in (schemas.VERSIONS[0], schemas.VERSIONS[-1]):
        messages, errors = rendering.lint_messages(values, f"v{version}.0")
        report.check(not messages and not errors, f"{name}: helm lint with Kubernetes {version}: {messages} {errors}")
    found = rendering.objects(rendering.texts(chart, values))
    schemas.check(report, name, found, custom)
    assertions.check(report, name, found, chart.merge_values(values))
    binary.check(report, name, found)
    variants.check(report, name, chart, values)


def main():
    if sys.argv[1:] == ["write"]:
        generated.write()
        return 0
    report = Report()
    report.progress("generated files ...")
    generated.check(report)
    chart, custom = rendering.load(), schemas.Custom()
    for name, values in values_files().items():
        check_values_file(report, chart, custom, name, values)
    everything = values_files()["sasl-tls-values.yaml"]
    variants.check_packaged(report, chart, everything)
    report.progress("mistakes that must be found ...")
    found = rendering.objects(rendering.texts(chart, everything))
    selftest.check(report, chart.merge_values(everything), found, custom)
    report.progress("values that must be refused ...")
    refusals.check(report, chart)
    report.progress("rules and alerts ...")
    rules.check(report)
    pages.check(report)
    report.progress("dashboards ...")
    dashboards.check(report)
    report.progress("compose ...")
    compose.check(report)
    return report.end()


sys.exit(main())
