"""The grace period is long enough for what the process takes to stop, read from the code that says so."""

import functools
import re

from .paths import ROOT

# (crate, name of a constant or of a default): each bounds one step of the stop, in order.
LAST = (("mailrail", "CLOSE_WAIT"), ("mailrail", "CLOSE_WAIT"))
STEPS = {
    "match": (("log", "LEAVE_WAIT"),),
    "ingest": (("ingest", "drain_timeout"),),
    "control": (("control", "drain_timeout"),),
}
STEPS["deliver"] = STEPS["match"]


@functools.cache
def seconds(crate, name):
    """The duration that a constant or a default has in the sources of a crate; the longest, where there are several."""
    pattern = re.compile(rf"\b{name}(?:: Duration =|:) Duration::from_secs\((\d+)\)")
    found = [
        int(number)
        for path in (ROOT / "crates" / crate / "src").rglob("*.rs")
        for number in pattern.findall(path.read_text())
    ]
    if not found:
        raise RuntimeError(
            f"crate {crate} has no {name} in seconds: the chart's grace period rests on it (checks/grace.py, _workloads.tpl)"
        )
    return max(found)


def check(report, where, workload):
    role = workload["metadata"]["labels"]["app.kubernetes.io/component"]
    pod = workload["spec"]["template"]["spec"]
    pause = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    needed = pause + sum(seconds(*step) for step in (*STEPS[role], *LAST))
    given = pod["terminationGracePeriodSeconds"]
    report.check(given >= needed, f"{where}: {given} s of grace, and stopping may take {needed} s")
    is_door = role in ("ingest", "control")
    report.check((pause > 0) == is_door, f"{where}: the pause before SIGTERM is {pause} s")
