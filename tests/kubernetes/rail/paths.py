"""Where things are."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
CHART = ROOT / "helm" / "mailrail"
# Definitions of others that the chart's objects need; KEDA's own come with the programs.
CRDS = [
    ROOT / "tests" / "chart" / "crds" / "monitoring-podmonitors.yaml",
    ROOT / "tests" / "chart" / "crds" / "monitoring-prometheusrules.yaml",
    ROOT / "tests" / "chart" / "crds" / "strimzi-kafkauser.yaml",
    HERE / "crds" / "externalsecrets.yaml",
]
VALUES = HERE / "values.yaml"
BINARY = Path(os.environ.get("MAILRAIL", ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug" / "mailrail")).resolve()
