"""What is generated is what its sources say."""

import sys

from . import chart_readme, values_schema
from .paths import CHART, DASHBOARDS, ROOT

sys.path.insert(0, str(DASHBOARDS))
import source as dashboards  # noqa: E402  deploy/grafana/source


def files():
    """Path → text, made when it is asked for: the README is made from the file itself."""
    yield CHART / "values.schema.json", values_schema.text()
    yield CHART / "README.md", chart_readme.text()
    for name, text in dashboards.texts().items():
        yield DASHBOARDS / name, text


def write():
    for path, text in files():
        path.write_text(text)


def check(report):
    for path, text in files():
        is_same = path.exists() and path.read_text() == text
        report.check(is_same, f"{path.relative_to(ROOT)} is not as its sources say: run `make chart-write`")
    documented = {path for path, _ in chart_readme.documented()}
    report.check(
        len(documented) > 50,
        f"only {len(documented)} values are documented: the form of the comments is not the one that is read",
    )
