"""values.schema.json, from values.yaml, the settings reference and the rules below.

The shape is that of values.yaml: what has no default there does not exist. Draft 7, nothing remote, `global` allowed, so that the
chart can be a part of another one and be installed without a network.
"""

import copy
import json

import yaml

from . import settings_schema
from .paths import CHART

ROLES = ("ingest", "match", "deliver", "control")
NAME = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", "maxLength": 253}
COUNT = {"type": "integer", "minimum": 0}
SECONDS = {"type": "integer", "minimum": 1}
SHARE = {"type": ["integer", "string", "null"]}
FREE = {"type": "object"}
ANY_OBJECTS = {"type": "array", "items": {"type": "object"}}
TOLERANCE = {"type": "object", "properties": {"tolerance": {"type": "string", "description": 'a text: "0.05"'}}}
BEHAVIOR = {
    "type": "object",
    "properties": {"scaleUp": TOLERANCE, "scaleDown": TOLERANCE},
    "additionalProperties": False,
}
MODES = {
    "ingest": ["hpa", "keda", "none"],
    "match": ["keda", "hpa", "none"],
    "deliver": ["keda", "hpa", "none"],
    "control": ["none", "hpa", "keda"],
}

# By path, in place of what the default says. `*` is any role.
RULES = {
    "global": FREE,
    "kafka.brokers": {"type": "array", "items": {"type": "string", "pattern": "^.+:[0-9]+$"}},
    "kafka.security.protocol": {"enum": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
    "kafka.sasl.mechanism": {"enum": ["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]},
    "kafka.protocolVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullSecrets": ANY_OBJECTS,
    "fullnameOverride": NAME,
    "nameOverride": NAME,
    "*.resources": FREE,
    "*.strategy": FREE,
    "*.env": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    "*.tolerations": ANY_OBJECTS,
    "*.topologySpreadConstraints": ANY_OBJECTS,
    "*.extraVolumes": ANY_OBJECTS,
    "*.extraVolumeMounts": ANY_OBJECTS,
    "*.replicas": {"type": "integer", "minimum": 1},
    "*.minReadySeconds": COUNT,
    "*.preStopSleepSeconds": {"type": "integer", "minimum": 0, "maximum": 60},
    "*.terminationGracePeriodSeconds": {"type": ["integer", "null"], "minimum": 1},
    "*.pdb.maxUnavailable": SHARE,
    "*.pdb.minAvailable": SHARE,
    "*.service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "*.service.port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "*.ingress.hosts": {"type": "array", "items": {"type": "string"}},
    "*.ingress.tls": ANY_OBJECTS,
    "*.autoscaling.maxReplicas": {"type": "integer", "minimum": 1},
    "*.autoscaling.hpa.behavior": BEHAVIOR,
    "*.autoscaling.keda.behavior": BEHAVIOR,
    "*.autoscaling.hpa.targetCPUUtilizationPercentage": {"type": "integer", "minimum": 1, "maximum": 1000},
    "*.autoscaling.keda.lagThreshold": SECONDS,
    "*.autoscaling.keda.pollingInterval": SECONDS,
    "*.autoscaling.keda.fallback.failureThreshold": SECONDS,
    "*.autoscaling.keda.fallback.replicas": {"type": ["integer", "null"], "minimum": 0},
    "*.autoscaling.keda.fallback.behavior": {
        "enum": ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]
    },
    "*.autoscaling.keda.extraTriggers": ANY_OBJECTS,
    "prepare.activeDeadlineSeconds": {"type": "integer", "minimum": 30},
    "prepare.resources": FREE,
    "podSecurityContext": FREE,
    "containerSecurityContext": FREE,
    "networkPolicy.backends": ANY_OBJECTS,
    "networkPolicy.ingestFrom": ANY_OBJECTS,
    "networkPolicy.controlFrom": ANY_OBJECTS,
    "networkPolicy.metricsFrom": ANY_OBJECTS,
    "networkPolicy.endpointPorts": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}},
    "podMonitor.interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m)$"},
    "extraObjects": ANY_OBJECTS,
}


def rule(path):
    head, _, rest = path.partition(".")
    wild = f"*.{rest}" if head in ROLES and rest else None
    return copy.deepcopy(RULES.get(path) or RULES.get(wild))


def shape(value, path):
    """The schema of a value with this default."""
    if found := rule(path):
        return found
    if isinstance(value, dict):
        if not value or path == "dashboards.labels":
            return {"type": "object"}
        inner = {key: shape(item, f"{path}.{key}" if path else key) for key, item in value.items()}
        return {"type": "object", "additionalProperties": False, "properties": inner}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return dict(COUNT)
    if isinstance(value, str):
        return {"type": "string"}
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "string"}}
    raise RuntimeError(
        f"values.yaml: {path} has the default {value!r}, which says no type: give it a rule in checks/values_schema.py"
    )


def build():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    whole = shape({key: value for key, value in values.items() if key not in (*ROLES, "pipelines", "settings")}, "")
    definitions = {"settings": settings_schema.schema()}
    for role in ROLES:
        definition = shape(values[role], role)
        definition["properties"]["autoscaling"]["properties"]["mode"] = {"enum": MODES[role]}
        definitions[role] = definition
        whole["properties"][role] = {"$ref": f"#/definitions/{role}"}
    whole["properties"]["settings"] = {"$ref": "#/definitions/settings"}
    pipeline = {"partitions": {"type": "integer", "minimum": 1, "maximum": 1024}}
    pipeline |= {name: {"$ref": f"#/definitions/{name}"} for name in ("settings", *ROLES)}
    whole["properties"]["pipelines"] = {
        "type": "object",
        # Part of topics, groups and of the names of Kubernetes objects.
        "propertyNames": {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 24},
        "additionalProperties": {"type": ["object", "null"], "additionalProperties": False, "properties": pipeline},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the mailrail chart",
        "definitions": definitions,
        **whole,
    }


def text():
    return json.dumps(build(), indent=1) + "\n"
