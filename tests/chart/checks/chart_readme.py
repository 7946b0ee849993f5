"""README.md of the chart: a fixed beginning, and a table made from the comments of values.yaml."""

import json
import re

import yaml

from .paths import CHART

MARK = "<!-- Below: made by `make chart-write` from values.yaml. -->\n"
LINE = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z0-9]+):")


def documented():
    """(path, text) of every key with a `# --` comment."""
    path, comment = [], None
    for line in (CHART / "values.yaml").read_text().splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = stripped[5:]
        elif stripped.startswith("# ") and comment is not None:
            comment += f" {stripped[2:]}"
        elif found := LINE.match(line):
            path = path[: len(found["indent"]) // 2] + [found["key"]]
            if comment is not None:
                yield tuple(path), comment
            comment = None
        else:
            comment = None


def default(values, path):
    for key in path:
        values = values[key]
    shown = json.dumps(values)
    return f"`{shown}`" if len(shown) <= 60 else "see values.yaml"


def table():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = [f"| `{'.'.join(path)}` | {default(values, path)} | {comment} |" for path, comment in documented()]
    return "\n".join(["| value | default | what it is |", "|---|---|---|", *rows]) + "\n"


def text():
    written = (CHART / "README.md").read_text()
    if MARK not in written:
        raise RuntimeError(f"helm/mailrail/README.md lacks the line {MARK.strip()}")
    return written[: written.index(MARK)] + MARK + "\n" + table()
