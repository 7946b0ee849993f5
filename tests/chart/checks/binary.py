"""The real binary accepts the settings and the environment that the chart gives it, for every role."""

import os
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

from . import pods
from .paths import BINARY, ROOT
from .rendering import name_of

# Stand-ins for what the Secrets hold.
SECRETS = {
    "MAILRAIL__STORE__URL": "postgres://rail:secret@postgres/rail",
    "MAILRAIL_ENCRYPTION_KEY": "00" * 32,
    "MAILRAIL_ADMIN_TOKEN": "0123456789abcdef0123456789abcdef",
    "MAILRAIL__LIMITS__REDIS": "redis://:secret@redis:6379/",
    "MAILRAIL__LOG__KAFKA__PROPERTIES__SASL_USERNAME": "rail",
    "MAILRAIL__LOG__KAFKA__PROPERTIES__SASL_PASSWORD": "secret",
}
# And for what the node says of the pod.
FIELDS = {"metadata.uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}
# Members of groups: a container that is started again is known by the UID of its pod.
NAMED_ROLES = {"match": "metadata.uid", "deliver": "metadata.uid", "ingest": None, "control": None}
TIMEOUT_SECONDS = 30


def run(*arguments, env=None):
    return subprocess.run([BINARY, *arguments], env=env or {}, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def check(report, label, found):
    if not BINARY.exists():
        report.check(False, f"{BINARY} is missing: run `make build`, or name it with MAILRAIL=")
        return
    settings = {
        it["metadata"]["name"]: it["data"]["mailrail.toml"]
        for it in found
        if it["kind"] == "ConfigMap" and "mailrail.toml" in it["data"]
    }
    for it in found:
        if it["kind"] in pods.WORKLOADS:
            spec = it["spec"] if it["kind"] == "Pod" else it["spec"]["template"]["spec"]
            check_commands(report, f"{label}: {name_of(it)}", spec)
        if it["kind"] == "Deployment":
            volume = next(one for one in it["spec"]["template"]["spec"]["volumes"] if one["name"] == "settings")
            check_settings(report, f"{label}: {name_of(it)}", it, settings[volume["configMap"]["name"]])


def check_settings(report, where, workload, text):
    container = workload["spec"]["template"]["spec"]["containers"][0]
    role = container["args"][0]
    with tempfile.TemporaryDirectory() as folder:
        # Files of Secrets are not here: the one that is opened at the check is stood in for.
        ca_file = Path(folder, "ca.crt")
        # An authority that nobody has the key of.
        shutil.copy(ROOT / "tests" / "chart" / "ca.crt", ca_file)
        path = Path(folder, "mailrail.toml")
        path.write_text(text.replace("/etc/mailrail/endpoints-ca/ca.crt", str(ca_file)))
        env = {one["name"]: value_of(one) for one in container["env"]}
        name = next((one for one in container["env"] if one["name"] == "MAILRAIL__LOG__KAFKA__GROUP_INSTANCE_ID"), None)
        report.check(field_of(name or {}) == NAMED_ROLES[role], f"{where}: the name in the group is {name}")
        unknown = [name for name, value in env.items() if value is None]
        report.check(not unknown, f"{where}: variables from Secrets that are not known here: {unknown}")
        env = {name: value for name, value in env.items() if value is not None}
        answer = run("check-config", str(path), "--role", role, env=env)
    report.check(answer.returncode == 0, f"{where}: mailrail check-config --role {role}: {answer.stderr.strip()}")
    listens(report, where, container, tomllib.loads(text))


def field_of(variable):
    return variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")


def value_of(variable):
    if "value" in variable:
        return variable["value"]
    field = field_of(variable)
    return FIELDS.get(field) if field else SECRETS.get(variable["name"])


def listens(report, where, container, settings):
    """Ports of the container are those that the process listens on, on every address."""
    role = container["args"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    wanted = {"admin": settings["admin"]["listen"]}
    if role in ("ingest", "control"):
        wanted["http"] = settings[role]["listen"]
    for name, address in wanted.items():
        report.check(
            address == f"0.0.0.0:{ports.get(name)}",
            f"{where}: port {name} is {ports.get(name)}, and it listens on {address}",
        )


def check_commands(report, where, spec):
    """Subcommands and options exist: `--help` refuses those that do not."""
    for one in pods.containers(spec):
        arguments = one["args"]
        if arguments == ["--version"]:
            report.check(run("--version").returncode == 0, f"{where}: mailrail --version")
            continue
        answer = run(arguments[0], "--help", env=dict(os.environ))
        report.check(answer.returncode == 0, f"{where}: there is no command `mailrail {arguments[0]}`")
        for option in (it for it in arguments[1:] if it.startswith("--")):
            report.check(option in answer.stdout, f"{where}: `mailrail {arguments[0]}` has no {option}")
