"""Values that cannot work are refused, with a message that says what to change.

Each file of tests/chart/refused is laid over ci/minimal-values.yaml; its first line says what the message must hold. Several cases in
a file are separate documents, each with its own `expect`.
"""

import copy

import yaml
from helm_python import HelmError

from . import rendering
from .paths import CHART, REFUSED


def merged(base, over):
    """As Helm lays one values file over another."""
    result = copy.deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def check(report, chart):
    minimal = yaml.safe_load((CHART / "ci" / "minimal-values.yaml").read_text())
    for path in sorted(REFUSED.glob("*.yaml")):
        for number, case in enumerate(yaml.safe_load_all(path.read_text()), 1):
            where = f"refused/{path.name}, case {number}"
            expected = case.pop("expect")
            try:
                rendering.texts(chart, merged(minimal, case))
                report.check(False, f"{where}: it was rendered; wanted: {expected}")
            except HelmError as error:
                report.check(expected in str(error), f"{where}: wanted '{expected}', got: {error}")
