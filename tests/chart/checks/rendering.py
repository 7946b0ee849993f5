"""Renders the chart as Helm does."""

import contextlib
import os

import yaml
from helm_python import Chart, lint

from .paths import CHART

NAMESPACE = "rail"


@contextlib.contextmanager
def quiet():
    """Helm's library says on file descriptor 2 that it follows the links of files/."""
    saved = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nothing)


def load():
    with quiet():
        return Chart.load(CHART)


def lint_messages(values, kube_version):
    with quiet():
        report = lint(CHART, values, strict=True, kube_version=kube_version)
    return [message for message in report["messages"] if message["severity"] >= 2], report["errors"]


def texts(chart, values, name="rail"):
    """Template path → text."""
    with quiet():
        return chart.render(values=values, name=name, namespace=NAMESPACE, is_install=True)


def objects(rendered):
    """The objects of a rendering, with NOTES left out."""
    found = []
    for path, text in sorted(rendered.items()):
        if not path.endswith("NOTES.txt"):
            found += [it for it in yaml.safe_load_all(text) if it]
    return found


def name_of(it):
    return f"{it['kind']} {it['metadata']['name']}"
