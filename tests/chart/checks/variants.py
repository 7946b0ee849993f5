"""One values file rendered in other circumstances: twice, under the longest name, as a part of another chart, with other settings."""

import copy
import tarfile
import tempfile

from helm_python import Chart, package

from . import rendering
from .assertions import identities
from .paths import CHART

LONGEST_NAME = "a" + "-long" * 10 + "-x"


def check(report, name, chart, values):
    first, second = rendering.texts(chart, values), rendering.texts(chart, values)
    report.check(first == second, f"{name}: two renderings differ")

    report.check(len(LONGEST_NAME) == 53, "the longest name of a release has 53 characters")
    long = rendering.objects(rendering.texts(chart, values, LONGEST_NAME))
    identities(report, f"{name} as {LONGEST_NAME}", long)
    kinds = lambda objects: sorted(it["kind"] for it in objects)
    report.check(kinds(long) == kinds(rendering.objects(first)), f"{name}: a long name changes what is made")

    part = copy.deepcopy(values) | {
        "global": {"imageRegistry": "registry.parent.example.com", "imagePullSecrets": [{"name": "parent"}]}
    }
    for it in rendering.objects(rendering.texts(chart, part)):
        if it["kind"] == "Deployment":
            spec = it["spec"]["template"]["spec"]
            report.check(
                spec["containers"][0]["image"].startswith("registry.parent.example.com/"),
                f"{name}: global.imageRegistry does not hold",
            )
            report.check(
                spec["imagePullSecrets"] == [{"name": "parent"}], f"{name}: global.imagePullSecrets does not hold"
            )

    changed = copy.deepcopy(values)
    changed.setdefault("settings", {}).setdefault("logs", {})["filter"] = "debug"
    report.check(
        checksums(first).isdisjoint(checksums(rendering.texts(chart, changed))),
        f"{name}: other settings do not replace every pod",
    )


def checksums(texts):
    return {
        it["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for it in rendering.objects(texts)
        if it["kind"] == "Deployment"
    }


def check_packaged(report, chart, values):
    """What is published is what is here: rules and dashboards are links, which an archive must not have."""
    with tempfile.TemporaryDirectory() as folder, rendering.quiet():
        archive = package(CHART, destination=folder)
        with tarfile.open(archive) as content:
            members = content.getmembers()
        packaged = rendering.texts(Chart.load(archive), values)
    report.check(all(it.isfile() for it in members), "the packaged chart has links")
    others = [it.name for it in members if it.name.endswith((".py", "-values.yaml"))]
    report.check(not others, f"the packaged chart has {others}: see .helmignore")
    report.check(packaged == rendering.texts(chart, values), "the packaged chart renders something else")
