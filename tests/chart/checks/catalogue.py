"""The metrics that there are: the committed catalogue, and what a real process shows."""

import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from .paths import BINARY, REFERENCE

ROW = re.compile(r"^\| `(?P<name>mailrail_[a-z_]+)` \| (?P<type>counter|gauge|histogram) \| (?P<labels>[^|]*) \|")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
# Added by the scrape configuration, and of histograms.
SCRAPED_LABELS = {"job", "instance", "component", "pipeline", "namespace", "pod"}
# Metrics of others that rules and dashboards may use.
OTHERS = re.compile(
    r"^(up|ALERTS|process_.*|keda_(scaler_.*|scaled_object_.*)|kube_horizontalpodautoscaler_.*|container_(cpu|memory)_.*)$"
)
START_SECONDS_MAX = 60


def series():
    """Name of every sample → its labels, from docs/reference/metrics.md."""
    known = {}
    for line in (REFERENCE / "metrics.md").read_text().splitlines():
        if found := ROW.match(line):
            labels = set(re.findall(r"`([a-z_]+)`", found["labels"]))
            for suffix in SUFFIXES[found["type"]]:
                known[found["name"] + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    if len(known) < 30:
        raise RuntimeError("docs/reference/metrics.md lists few metrics: its format is not the one that is read here")
    return known


def without_sample():
    """Metrics whose help says that they are not always there."""
    rows = filter(None, map(ROW.match, (REFERENCE / "metrics.md").read_text().splitlines()))
    return {row["name"] for row in rows if "no sample where" in row.string}


def scraped():
    """Sample families of a real scrape: `mailrail dev` with a set-up of its own, on free ports."""
    with tempfile.TemporaryDirectory() as folder:
        free = {f"MAILRAIL__{section}__LISTEN": "127.0.0.1:0" for section in ("ADMIN", "INGEST", "CONTROL")}
        said = Path(folder, "said")
        with said.open("w") as output:
            command = [BINARY, "dev", "--data", f"{folder}/data", "--demo", "--events", "20"]
            process = subprocess.Popen(command, env={**os.environ, **free}, stdout=output, stderr=subprocess.STDOUT)
        try:
            return families(address(process, said))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def address(process, said):
    """Waits until the process said where its metrics are."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"metrics\s+(http://\S+)", said.read_text()):
            return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"mailrail dev did not say where its metrics are: {said.read_text()[:500]}")


def families(address):
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
