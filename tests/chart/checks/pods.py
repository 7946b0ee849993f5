"""What each pod must be: the restricted Pod Security Standard, probes on ports that exist, mounts that have volumes, Secrets that
somebody named."""

import json

WORKLOADS = ("Deployment", "Job", "Pod")
VOLUMES_ALLOWED = {
    "configMap",
    "secret",
    "emptyDir",
    "projected",
    "csi",
    "downwardAPI",
    "ephemeral",
    "persistentVolumeClaim",
}


def of(found, label):
    """(pod spec, where) of every object that has pods."""
    for it in found:
        if it["kind"] in WORKLOADS:
            spec = it["spec"] if it["kind"] == "Pod" else it["spec"]["template"]["spec"]
            yield spec, f"{label}: {it['kind']} {it['metadata']['name']}"


def containers(pod):
    return [*pod.get("initContainers", ()), *pod["containers"]]


def port_names(workload):
    return {port["name"] for one in containers(workload["spec"]["template"]["spec"]) for port in one.get("ports", ())}


def secret_keys(pod):
    """Every (Secret, key) that a pod reads."""
    pairs = set()
    for one in containers(pod):
        for variable in one.get("env", ()):
            source = variable.get("valueFrom", {}).get("secretKeyRef")
            if source:
                pairs.add((source["name"], source["key"]))
    for volume in pod.get("volumes", ()):
        for item in volume.get("secret", {}).get("items", ()):
            pairs.add((volume["secret"]["secretName"], item["key"]))
    return pairs


def check(report, where, pod, objects, values):
    restricted(report, where, pod)
    report.check(pod.get("automountServiceAccountToken") is False, f"{where}: a token of the API is mounted")
    report.check(pod.get("enableServiceLinks") is False, f"{where}: Services put variables into its environment")
    volumes = {it["name"] for it in pod.get("volumes", ())}
    for one in containers(pod):
        container(report, f"{where}: {one['name']}", one, volumes)
    given = named_secrets(values)
    for name, key in secret_keys(pod):
        report.check(name in given, f"{where}: Secret {name} (key {key}) is named nowhere in the values")
    for volume in pod.get("volumes", ()):
        if "configMap" in volume:
            known = objects.named("ConfigMap", volume["configMap"]["name"])
            report.check(
                known and "mailrail.toml" in known["data"],
                f"{where}: there is no ConfigMap {volume['configMap']['name']} with mailrail.toml",
            )


def named_secrets(values):
    """Every value of a key `existingSecret`."""
    if isinstance(values, dict):
        own = {values["existingSecret"]} if values.get("existingSecret") else set()
        return own.union(*map(named_secrets, values.values()))
    return set()


def container(report, where, one, volumes):
    ports = {port["name"] for port in one.get("ports", ())}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in one:
            report.check(
                one[probe]["httpGet"]["port"] in ports, f"{where}: {probe} goes to a port that it does not have"
            )
    for mount in one.get("volumeMounts", ()):
        report.check(mount["name"] in volumes, f"{where}: mounts {mount['name']}, which is no volume")
    names = [it["name"] for it in one.get("env", ())]
    report.check(len(names) == len(set(names)), f"{where}: a variable is given twice: {names}")
    limits, requests = one["resources"].get("limits", {}), one["resources"].get("requests", {})
    report.check(
        "memory" in limits and limits.get("memory") == requests.get("memory"),
        f"{where}: memory request and limit differ",
    )
    report.check("cpu" in requests, f"{where}: no CPU request, which autoscaling by CPU and scheduling need")
    literal = [
        it for it in one.get("env", ()) if "value" in it and it["name"] not in ("MAILRAIL_CONFIG", "RUST_BACKTRACE")
    ]
    report.check(not literal, f"{where}: the chart gives variables by value: {literal}")


def restricted(report, where, pod):
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, "Restricted"."""
    context = pod.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        report.check(not pod.get(field), f"{where}: {field}")
    report.check(context.get("runAsNonRoot") is True, f"{where}: runAsNonRoot is not true")
    report.check(context.get("runAsUser") is None, f"{where}: runAsUser is fixed, which OpenShift refuses")
    report.check(context.get("seccompProfile", {}).get("type") == "RuntimeDefault", f"{where}: no seccomp profile")
    for volume in pod.get("volumes", ()):
        report.check(set(volume) - {"name"} <= VOLUMES_ALLOWED, f"{where}: volume {json.dumps(volume)}")
    for one in containers(pod):
        own = one.get("securityContext", {})
        report.check(own.get("allowPrivilegeEscalation") is False, f"{where}: {one['name']} may gain privileges")
        report.check(own.get("capabilities", {}).get("drop") == ["ALL"], f"{where}: {one['name']} keeps capabilities")
        report.check(not own.get("capabilities", {}).get("add"), f"{where}: {one['name']} adds capabilities")
        report.check(own.get("readOnlyRootFilesystem") is True, f"{where}: {one['name']} may write to its image")
        report.check(not own.get("privileged"), f"{where}: {one['name']} is privileged")
        report.check(
            all("hostPort" not in port for port in one.get("ports", ())),
            f"{where}: {one['name']} takes a port of the host",
        )
