"""Where things are."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
CHART = ROOT / "helm" / "mailrail"
RULES = ROOT / "deploy" / "prometheus" / "rules"
RULE_TESTS = ROOT / "deploy" / "prometheus" / "tests"
DASHBOARDS = ROOT / "deploy" / "grafana"
COMPOSE = ROOT / "deploy" / "compose"
RUNBOOKS = ROOT / "docs" / "operate" / "runbooks"
REFERENCE = ROOT / "docs" / "reference"
# The definitions beside this file, or the project's shared data.
CRDS = next(
    (
        path
        for path in (HERE / "crds", ROOT.parent / "shared" / "data" / "kubernetes-crds")
        if list(path.glob("*.yaml"))
    ),
    HERE / "crds",
)
REFUSED = HERE / "refused"
BINARY = Path(os.environ.get("MAILRAIL", ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug" / "mailrail"))
