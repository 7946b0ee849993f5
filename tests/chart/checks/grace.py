"""The grace period is long enough for what the process takes to stop, read from the code that says so."""

import functools
import re
import tomllib

from .paths import ROOT

UNITS = {"s": 1, "m": 60, "h": 3600}


@functools.cache
def seconds(path, name):
    """The duration that a constant or a default has in the sources at `path`, below `crates`; the longest, where there are several."""
    pattern = re.compile(rf"\b{name}(?:: Duration =|:) Duration::from_secs\((\d+)\)")
    folder = ROOT / "crates" / path
    files = folder.rglob("*.rs") if folder.is_dir() else [folder]
    found = [int(number) for file in files for number in pattern.findall(file.read_text())]
    if not found:
        raise RuntimeError(
            f"crates/{path} has no {name} in seconds: the chart's grace period rests on it (checks/grace.py, _workloads.tpl)"
        )
    return max(found)


def session(text):
    """Seconds of `log.kafka.session_timeout` in a settings file."""
    given = tomllib.loads(text).get("log", {}).get("kafka", {}).get("session_timeout")
    if given is None:
        return seconds("mailrail/src/settings/backends.rs", "session_timeout")
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)\s*([smh])", given))


def stopping(role, text):
    """The most that a role takes to stop, whose settings file is `text`."""
    if role in ("ingest", "control"):
        first = seconds(f"{role}/src", "drain_timeout")
    else:
        release = session(text) + seconds("log/src/kafka/config.rs", "RELEASE_BEYOND_SESSION")
        release = max(seconds("log/src/port.rs", "RELEASE_WAIT"), release)
        leaving = ("GIVING_BACK_BEYOND_RELEASE", "GOODBYE_WAIT")
        first = release + sum(seconds("log/src/kafka/membership.rs", name) for name in leaving)
    return first + 2 * seconds("mailrail/src", "CLOSE_WAIT")


# After all that, so that what is counted is not cut at its last moment.
MARGIN = 5


def check_compose(report, where, service, text):
    """A role of the compose file, whose settings file is `text`."""
    (role,) = service["command"]
    needed = stopping(role, text) + MARGIN
    given = re.fullmatch(r"(\d+)s", service.get("stop_grace_period", ""))
    report.check(
        given and int(given[1]) >= needed,
        f"{where}: stop_grace_period is {service.get('stop_grace_period')}, and stopping may take {needed} s; write it in s",
    )


def check(report, where, workload, text):
    role = workload["metadata"]["labels"]["app.kubernetes.io/component"]
    pod = workload["spec"]["template"]["spec"]
    pause = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    needed = pause + stopping(role, text)
    given = pod["terminationGracePeriodSeconds"]
    report.check(given >= needed, f"{where}: {given} s of grace, and stopping may take {needed} s")
    is_door = role in ("ingest", "control")
    report.check((pause > 0) == is_door, f"{where}: the pause before SIGTERM is {pause} s")
