"""What a cluster would find out only later: whether the objects of one rendering fit each other.

N20: the assertions across objects. A23: each role of each pipeline is scaled by the lag of its own topic and group."""

import json
import re
import tomllib

from . import grace, pods, rules
from .paths import DASHBOARDS
from .rendering import NAMESPACE, name_of


def check(report, label, found, values):
    """`found`: the objects; `values`: what they were rendered from, defaults included."""
    objects = Objects(found)
    identities(report, label, found)
    for workload in objects.kind("Deployment"):
        where = f"{label}: {name_of(workload)}"
        selector = workload["spec"]["selector"]["matchLabels"]
        report.check(
            matches(selector, workload["spec"]["template"]["metadata"]["labels"]),
            f"{where}: its selector is not among the labels of its pods",
        )
        report.check(len(objects.selected(selector)) == 1, f"{where}: its selector takes pods of others too")
        report.check(
            "checksum/config" in workload["spec"]["template"]["metadata"]["annotations"],
            f"{where}: no checksum of the settings",
        )
        volumes = {one["name"]: one for one in workload["spec"]["template"]["spec"]["volumes"]}
        settings = objects.named("ConfigMap", volumes["settings"]["configMap"]["name"])
        grace.check(report, where, workload, settings["data"]["mailrail.toml"])
    for pod, where in pods.of(found, label):
        pods.check(report, where, pod, objects, values)
    selectors(report, label, objects)
    services(report, label, objects)
    scaling(report, label, objects)
    authentication(report, label, objects)
    rights(report, label, objects)
    monitoring(report, label, objects, values)
    hooks(report, label, found)
    tests(report, label, objects)


def matches(selector, labels):
    return selector.items() <= labels.items()


class Objects:
    """The objects of a rendering, by kind, and which pods a selector takes."""

    def __init__(self, found):
        self.found = found

    def kind(self, *kinds):
        return [it for it in self.found if it["kind"] in kinds]

    def named(self, kind, name):
        return next((it for it in self.kind(kind) if it["metadata"]["name"] == name), None)

    def settings(self):
        """The settings files of the pipelines, read."""
        texts = [it["data"]["mailrail.toml"] for it in self.kind("ConfigMap") if "mailrail.toml" in it["data"]]
        return [tomllib.loads(text) for text in texts]

    def selected(self, match_labels, expressions=()):
        taken = []
        for it in self.kind("Deployment", "Job"):
            labels = it["spec"]["template"]["metadata"]["labels"]
            fits = all(labels.get(one["key"]) in one["values"] for one in expressions)
            if matches(match_labels, labels) and fits:
                taken.append(it)
        return taken


def identities(report, label, found):
    names = [(it["apiVersion"].split("/")[0], it["kind"], it["metadata"]["name"]) for it in found]
    report.check(
        len(names) == len(set(names)),
        lambda: f"{label}: names are taken twice: {sorted({it for it in names if names.count(it) > 1})}",
    )
    for it in found:
        where = f"{label}: {name_of(it)}"
        report.check(len(it["metadata"]["name"]) <= 63, f"{where}: the name is longer than 63 characters")
        report.check(it["metadata"].get("namespace", NAMESPACE) == NAMESPACE, f"{where}: it is in another namespace")
        template = it.get("spec", {}).get("template", {}) if it["kind"] in ("Deployment", "Job") else {}
        for labels in (it["metadata"].get("labels", {}), template.get("metadata", {}).get("labels", {})):
            for key, value in labels.items():
                good = isinstance(value, str) and re.fullmatch(
                    r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value
                )
                report.check(good, f"{where}: label {key} is '{value}'")
        if it["kind"] == "ScaledObject":
            report.check(
                len(it["metadata"]["name"]) <= 54,
                f"{where}: KEDA makes a label of keda-hpa-<name>, which has 63 characters at most",
            )
        if it["kind"] == "ConfigMap":
            report.check(len(json.dumps(it["data"])) < 1024 * 1024, f"{where}: a ConfigMap holds 1 MiB at most")


def selectors(report, label, objects):
    for kind, path in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        for it in objects.kind(kind):
            selector = it["spec"][path]
            selector = selector.get("matchLabels", selector)
            taken = objects.selected(selector)
            report.check(
                len(taken) == 1, f"{label}: {name_of(it)} selects {[name_of(one) for one in taken]}, not exactly one"
            )
    for it in objects.kind("PodMonitor"):
        selector = it["spec"]["selector"]
        taken = objects.selected(selector["matchLabels"], selector.get("matchExpressions", ()))
        everything = objects.kind("Deployment")
        report.check(
            taken == everything,
            f"{label}: {name_of(it)} selects {[name_of(one) for one in taken]}, not every Deployment",
        )
        for endpoint in it["spec"]["podMetricsEndpoints"]:
            for workload in taken:
                report.check(
                    endpoint["port"] in pods.port_names(workload),
                    f"{label}: {name_of(it)}: {name_of(workload)} has no port {endpoint['port']}",
                )


def services(report, label, objects):
    for it in objects.kind("Service"):
        taken = objects.selected(it["spec"]["selector"])
        report.check(len(taken) == 1, f"{label}: {name_of(it)} selects {[name_of(one) for one in taken]}")
        for port in it["spec"]["ports"]:
            good = taken and port["targetPort"] in pods.port_names(taken[0])
            report.check(good, f"{label}: {name_of(it)}: its pods have no port {port['targetPort']}")
    for it in objects.kind("Ingress"):
        for rule in it["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = objects.named("Service", path["backend"]["service"]["name"])
                names = [port["name"] for port in service["spec"]["ports"]] if service else []
                report.check(
                    path["backend"]["service"]["port"]["name"] in names, f"{label}: {name_of(it)}: no such Service port"
                )


def scaling(report, label, objects):
    targets = []
    for it in objects.kind("ScaledObject", "HorizontalPodAutoscaler"):
        target = it["spec"]["scaleTargetRef"]
        targets.append(target["name"])
        report.check(
            objects.named(target["kind"], target["name"]),
            f"{label}: {name_of(it)} scales {target['name']}, which is not there",
        )
    report.check(len(targets) == len(set(targets)), f"{label}: two autoscalers for one Deployment: {targets}")
    for it in objects.kind("Deployment"):
        autoscaled = it["metadata"]["name"] in targets
        has_replicas = "replicas" in it["spec"]
        report.check(
            autoscaled != has_replicas,
            f"{label}: {name_of(it)}: `replicas` {'is given although' if autoscaled else 'is missing and not'} autoscaled",
        )
    for it in objects.kind("ScaledObject"):
        settings = objects.named(
            "ConfigMap",
            volume(objects.named("Deployment", it["spec"]["scaleTargetRef"]["name"]), "settings")["configMap"]["name"],
        )
        topics(report, f"{label}: {name_of(it)}", it, settings["data"]["mailrail.toml"])


def topics(report, where, scaled, settings):
    """KEDA looks at what the binary with these settings reads: names are made as in crates/mailrail/src/topics.rs."""
    settings = tomllib.loads(settings)
    role = scaled["metadata"]["labels"]["app.kubernetes.io/component"]
    name = lambda kind: f"{settings.get('topic_prefix', '')}{kind}.{settings['pipeline']['name']}"
    trigger = next(it for it in scaled["spec"]["triggers"] if it["type"] == "kafka")["metadata"]
    topic = name({"match": "events", "deliver": "deliveries"}[role])
    report.check(trigger["topic"] == topic, f"{where}: the topic is {trigger['topic']}, not {topic}")
    report.check(
        trigger["consumerGroup"] == name(role), f"{where}: the group is {trigger['consumerGroup']}, not {name(role)}"
    )
    report.check(
        trigger["bootstrapServers"] == ",".join(settings["log"]["kafka"]["brokers"]),
        f"{where}: other brokers than the process has",
    )
    report.check(
        scaled["spec"]["maxReplicaCount"] <= settings["pipeline"]["partitions"], f"{where}: more pods than partitions"
    )


def volume(workload, name):
    return next(it for it in workload["spec"]["template"]["spec"]["volumes"] if it["name"] == name)


def authentication(report, label, objects):
    """KEDA logs in with what the pods log in with."""
    for it in objects.kind("ScaledObject"):
        for trigger in it["spec"]["triggers"]:
            name = trigger.get("authenticationRef", {}).get("name")
            secured = trigger.get("metadata", {}).get("sasl")
            report.check(name or not secured, f"{label}: {name_of(it)}: SASL without authenticationRef")
            if not name:
                continue
            known = objects.named("TriggerAuthentication", name)
            if not report.check(known, f"{label}: {name_of(it)}: there is no TriggerAuthentication {name}"):
                continue
            used = pods.secret_keys(
                objects.named("Deployment", it["spec"]["scaleTargetRef"]["name"])["spec"]["template"]["spec"]
            )
            for entry in known["spec"].get("configMapTargetRef", ()):
                names = objects.named("ConfigMap", entry["name"])
                user = {it["log"]["kafka"]["properties"].get("sasl.username") for it in objects.settings()}
                report.check(
                    names and {names["data"].get(entry["key"])} == user, f"{label}: {name_of(known)}: pods are {user}"
                )
            for entry in known["spec"]["secretTargetRef"]:
                pair = (entry["name"], entry["key"])
                report.check(pair in used, f"{label}: {name_of(known)}: {pair} is not among what the pods use")


def monitoring(report, label, objects, values):
    """Rules and dashboards come out as they went in: nothing of their own templates is lost on the way."""
    options = values["prometheusRule"]
    written = {rule.get("alert") or rule["record"]: rule for group in rules.groups() for rule in group["rules"]}
    for it in objects.kind("PrometheusRule"):
        rendered = {
            rule.get("alert") or rule["record"]: rule for group in it["spec"]["groups"] for rule in group["rules"]
        }
        wanted = written.keys() - set(options["disabled"])
        report.check(
            rendered.keys() == wanted, f"{label}: {name_of(it)}: rules are {sorted(rendered.keys() ^ wanted)} off"
        )
        for name, rule in rendered.items():
            url = rule.get("annotations", {}).pop("runbook_url", "")
            is_page = "record" in rule or url.startswith(options["runbookBaseUrl"])
            report.check(is_page, f"{label}: {name}: its page is {url}")
            same = {**written[name], "annotations": {**written[name].get("annotations", {})}}
            same["annotations"].pop("runbook_url", None)
            report.check(
                {"annotations": {}, **rule} == same, f"{label}: {name} is another rule than in deploy/prometheus"
            )
    boards = [it for it in objects.kind("ConfigMap") if it["metadata"]["labels"].get("grafana_dashboard")]
    report.check(len(boards) == (3 if values["dashboards"]["enabled"] else 0), f"{label}: {len(boards)} dashboards")
    for it in boards:
        ((name, text),) = it["data"].items()
        written_text = (DASHBOARDS / name.removeprefix("mailrail-")).read_text()
        report.check(json.loads(text) == json.loads(written_text), f"{label}: {name} is another dashboard")


KINDS = ("events", "deliveries", "journal", "attempts", "dead-letters", "quarantine", "redrives")


def rights(report, label, objects):
    """A KafkaUser may do what docs/operate/kafka-rights.md lists, on every topic and group of the settings, and nothing else."""
    for it in objects.kind("KafkaUser"):
        given = {
            (acl["resource"]["type"], acl["resource"]["name"]): set(acl["operations"])
            for acl in it["spec"]["authorization"]["acls"]
        }
        wanted = {("group", "mailrail-unused"): {"Describe"}}
        for settings in objects.settings():
            name = lambda kind: f"{settings.get('topic_prefix', '')}{kind}.{settings['pipeline']['name']}"
            wanted |= {
                ("topic", name(kind)): {"Describe", "DescribeConfigs", "Create", "Read", "Write"} for kind in KINDS
            }
            for kind in ("journal", "redrives"):
                wanted["topic", name(kind)] |= {"Delete"}
            wanted |= {("group", name(role)): {"Read", "Describe"} for role in ("match", "deliver")}
        report.check(given == wanted, f"{label}: {name_of(it)}: rights are {given}, not {wanted}")
        users = {settings["log"]["kafka"]["properties"].get("sasl.username") for settings in objects.settings()}
        scram = it["spec"]["authentication"]["type"] == "scram-sha-512"
        report.check(
            users == {it["metadata"]["name"] if scram else None}, f"{label}: {name_of(it)}: pods log in as {users}"
        )


def component(it):
    labels = it["metadata"]["labels"]
    return labels["mailrail-pipeline"], labels["app.kubernetes.io/component"]


def tests(report, label, objects):
    """`helm test` asks every role of every pipeline, by an address that finds its pods, and control for more than its health."""
    asked = {}
    for pod in objects.kind("Pod"):
        pipeline, _ = component(pod)
        where = f"{label}: {name_of(pod)}"
        report.check(pod["spec"]["restartPolicy"] == "Never", f"{where}: it would be tried again for ever")
        for one in pods.containers(pod["spec"]):
            if one["args"][0] != "health":
                continue
            name, port = one["args"][one["args"].index("--address") + 1].split(":")
            service = objects.named("Service", name)
            if not report.check(service, f"{where}: there is no Service {name}"):
                continue
            report.check(component(service) == (pipeline, one["name"]), f"{where}: {one['name']} asks {name}")
            ports = {str(it["port"]): it["targetPort"] for it in service["spec"]["ports"]}
            report.check(ports.get(port) == "admin", f"{where}: port {port} of {name} is no admin port")
            asked[pipeline, one["name"]] = True
        has_status = any(one["args"][0] == "status" for one in pod["spec"]["containers"])
        has_control = any(component(it) == (pipeline, "control") for it in objects.kind("Deployment"))
        report.check(has_status == has_control, f"{where}: it asks for the status {has_status}, control is there {has_control}")
    deployed = {component(it) for it in objects.kind("Deployment")}
    report.check(asked.keys() == deployed, f"{label}: `helm test` misses {sorted(deployed - asked.keys())}")


def hooks(report, label, found):
    """Nothing that Helm deletes by itself may hold data; a hook may not need what is made after it."""
    for it in found:
        hook = it["metadata"].get("annotations", {}).get("helm.sh/hook")
        if hook:
            good = it["kind"] in ("ConfigMap", "Job", "NetworkPolicy", "Pod")
            report.check(good, f"{label}: {name_of(it)} is a hook, and Helm deletes hooks")
    hooked = {
        name_of(it) for it in found if "pre-upgrade" in it["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    }
    for it in found:
        if it["kind"] == "Job":
            spec = it["spec"]["template"]["spec"]
            for one in spec["volumes"]:
                if "configMap" in one:
                    report.check(
                        f"ConfigMap {one['configMap']['name']}" in hooked,
                        f"{label}: {name_of(it)} needs a ConfigMap that is made after it",
                    )
            report.check(
                "serviceAccountName" not in spec, f"{label}: {name_of(it)} needs a ServiceAccount that is made after it"
            )
