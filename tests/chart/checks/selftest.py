"""The checks find what they are for: each mistake here, made in a good rendering, must be reported."""

import copy

from . import assertions, binary, schemas
from .report import Report


def first(found, kind, suffix=""):
    return next(it for it in found if it["kind"] == kind and it["metadata"]["name"].endswith(suffix))


def container(found, suffix):
    return first(found, "Deployment", suffix)["spec"]["template"]["spec"]["containers"][0]


def trigger(found):
    return first(found, "ScaledObject")["spec"]["triggers"][0]


def append(items, value):
    items.append(value)


# What, and how to make it.
MISTAKES = {
    "a text for a port": lambda it: container(it, "-ingest")["ports"][0].update(containerPort="9464"),
    "an unknown field of a Deployment": lambda it: first(it, "Deployment")["spec"].update(replica=2),
    "an unknown field of a ScaledObject": lambda it: first(it, "ScaledObject")["spec"].update(maxReplicas=3),
    "a number in a trigger": lambda it: trigger(it)["metadata"].update(lagThreshold=10),
    "a trigger key that is too new": lambda it: trigger(it)["metadata"].update(fullMetadata="true"),
    "a trigger key that there is not": lambda it: trigger(it)["metadata"].update(lagTreshold="10"),
    "a SASL name of Kafka's, not KEDA's": lambda it: trigger(it)["metadata"].update(sasl="SCRAM-SHA-512"),
    "a tolerance without quotes": lambda it: first(it, "ScaledObject")["spec"]["advanced"][
        "horizontalPodAutoscalerConfig"
    ]["behavior"]["scaleUp"].update(tolerance=0.05),
    "replicas beside an autoscaler": lambda it: first(it, "Deployment", "-match")["spec"].update(replicas=2),
    "no replicas and no autoscaler": lambda it: first(it, "Deployment", "-control")["spec"].pop("replicas"),
    "an autoscaler of nothing": lambda it: first(it, "ScaledObject")["spec"]["scaleTargetRef"].update(name="other"),
    "another topic": lambda it: trigger(it)["metadata"].update(topic="events.default"),
    "another group": lambda it: trigger(it)["metadata"].update(consumerGroup="live.deliver.other"),
    "more pods than partitions": lambda it: first(it, "ScaledObject")["spec"].update(maxReplicaCount=65),
    "other credentials for KEDA": lambda it: first(it, "TriggerAuthentication")["spec"]["secretTargetRef"][0].update(
        name="other"
    ),
    "a budget for nobody": lambda it: first(it, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].update(
        other="x"
    ),
    "a policy for everybody": lambda it: first(it, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"].pop(
        "app.kubernetes.io/component"
    ),
    "a monitor that misses a role": lambda it: first(it, "PodMonitor")["spec"]["selector"]["matchExpressions"][0][
        "values"
    ].pop(),
    "a monitor of no port": lambda it: first(it, "PodMonitor")["spec"]["podMetricsEndpoints"][0].update(port="metrics"),
    "a probe of no port": lambda it: container(it, "-deliver")["livenessProbe"]["httpGet"].update(port="http"),
    "a Service to no port": lambda it: first(it, "Service")["spec"]["ports"][0].update(targetPort="https"),
    "a Secret that nobody named": lambda it: container(it, "-deliver")["env"][1]["valueFrom"]["secretKeyRef"].update(
        name="other"
    ),
    "a mount without volume": lambda it: append(
        container(it, "-match")["volumeMounts"], {"name": "other", "mountPath": "/other"}
    ),
    "a root user": lambda it: first(it, "Deployment")["spec"]["template"]["spec"]["securityContext"].update(
        runAsNonRoot=False
    ),
    "a writable image": lambda it: container(it, "-match")["securityContext"].update(readOnlyRootFilesystem=False),
    "a secret by value": lambda it: append(container(it, "-match")["env"], {"name": "MAILRAIL_KEY", "value": "canary"}),
    "too little grace": lambda it: first(it, "Deployment", "-deliver")["spec"]["template"]["spec"].update(
        terminationGracePeriodSeconds=30
    ),
    "a role that there is not": lambda it: container(it, "-match").update(args=["router"]),
    "a role that `helm test` misses": lambda it: first(it, "Pod")["spec"]["initContainers"].pop(),
    "a role that is asked for another": lambda it: first(it, "Pod")["spec"]["initContainers"][0].update(name="other"),
    "a test without the status of control": lambda it: first(it, "Pod")["spec"].update(
        containers=[first(it, "Pod")["spec"]["initContainers"].pop()]
    ),
    "an option that there is not": lambda it: append(first(it, "Pod")["spec"]["containers"][0]["args"], "--wait"),
    "an unknown variable": lambda it: append(
        container(it, "-match")["env"], {"name": "MAILRAIL__DELIVER__DRAINN", "value": "1s"}
    ),
    "an unknown setting": lambda it: first(it, "ConfigMap", "-settings")["data"].update(
        {
            "mailrail.toml": first(it, "ConfigMap", "-settings")["data"]["mailrail.toml"].replace(
                "attempt_timeout", "atempt_timeout"
            )
        }
    ),
    "a port that it does not listen on": lambda it: container(it, "-ingest")["ports"][1].update(containerPort=8081),
    "settings that are not there": lambda it: first(it, "ConfigMap", "-settings")["metadata"].update(name="other"),
}


class Silent(Report):
    def progress(self, text):
        pass


def check(report, values, found, custom):
    """`found`: the objects of ci/sasl-tls-values.yaml, where everything is switched on; `values`: what they were made from."""
    for what, make in MISTAKES.items():
        wrong, inner = copy.deepcopy(found), Silent()
        make(wrong)
        try:
            schemas.check(inner, "", wrong, custom, versions=("1.37",))
            assertions.check(inner, "", wrong, values)
            binary.check(inner, "", wrong)
        except (KeyError, StopIteration, TypeError, AttributeError) as error:
            inner.failures.append(repr(error))
        report.check(inner.failures, f"the checks do not see {what}")
