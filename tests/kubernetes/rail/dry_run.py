"""Every `ci/*-values.yaml` of the chart, rendered by Helm and checked by the API server as if it were applied."""

from .paths import CHART
from .processes import Failure, say


def check_all(helm, kubectl, namespace):
    """How many files were accepted. `helm` and `kubectl` run a command with these arguments."""
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    for values in files:
        rendered, _ = helm("template", "rail", CHART, "--namespace", namespace, "--values", values)
        said, warned = kubectl("apply", "--namespace", namespace, "--dry-run=server", "--validate=strict", "--filename", "-",
                               stdin=rendered)
        if warned:
            raise Failure(f"{values.name}: the API server warns:\n{warned}")
        say(f"  {values.name}: {len(said.splitlines())} objects")
    return len(files)
