"""Validates objects against the strict schemas of each Kubernetes version, and custom resources against their definitions.

N20: every rendering of a ci/ values file, against Kubernetes 1.30 to 1.37, KEDA, Strimzi and the Prometheus Operator."""

import copy
import json
import re

import jsonschema
import kubernetes_validate
import yaml

from .paths import CRDS
from .rendering import name_of

VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
INT_OR_STRING = {"type": ["integer", "string"]}
# What Kafka's scaler takes, at the oldest KEDA that the chart supports, and that its generated list has too.
NEWER_THAN_SUPPORTED = {"fullMetadata"}


class Custom:
    """Strict JSON Schemas of the custom resources: unknown fields are errors."""

    def __init__(self):
        self.validators = {}
        definitions = sorted(CRDS.glob("*.yaml"))
        if len(definitions) < 5:
            raise RuntimeError(
                f"{CRDS} lacks the custom resource definitions of KEDA, the Prometheus Operator and Strimzi"
            )
        for path in definitions:
            definition = yaml.safe_load(path.read_text())
            group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
            for version in definition["spec"]["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                self.validators[f"{group}/{version['name']}", kind] = jsonschema.Draft202012Validator(schema)

    def errors(self, it):
        """None when the kind is not known."""
        validator = self.validators.get((it["apiVersion"], it["kind"]))
        return validator and [f"{error.json_path}: {error.message}" for error in validator.iter_errors(it)]


def strict(schema):
    """An OpenAPI schema as JSON Schema that refuses unknown fields, as the API server's strict validation does."""
    schema = copy.deepcopy(schema)
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.update(INT_OR_STRING)
        schema.pop("anyOf", None)
    if schema.pop("nullable", False) and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if "properties" in schema:
        schema["properties"] = {key: strict(value) for key, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = strict(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            schema[key] = [loose(part) for part in schema[key]]
    return schema


def loose(schema):
    """Parts of a choice name only the fields that they are about."""
    return copy.deepcopy(schema)


def kafka_scaler():
    """Parameters of KEDA's Kafka trigger, by name."""
    alone = CRDS / "keda-kafka-scaler.json"
    if alone.exists():
        scaler = json.loads(alone.read_text())
    else:
        scaler = next(
            it for it in json.loads((CRDS / "scalers-schema.json").read_text())["scalers"] if it["type"] == "kafka"
        )
    return {it["name"]: it for it in scaler["parameters"]}


def check(report, label, found, custom, versions=VERSIONS):
    """Every object against every version; custom resources once."""
    scaler = kafka_scaler()
    for it in found:
        report.add("objects")
        where = f"{label}: {name_of(it)}"
        errors = custom.errors(it)
        if errors is not None:
            report.check(not errors, f"{where}: {errors}", "schemas")
            if it["kind"] == "ScaledObject":
                check_triggers(report, where, it, scaler)
            continue
        if it["apiVersion"].startswith("external-secrets.io/"):
            continue  # an extra object of a values file; nobody here knows its schema
        for version in versions:
            check_builtin(report, where, it, version)


def check_builtin(report, where, it, version):
    try:
        used = kubernetes_validate.validate(it, version, strict=True)
        report.check(used == version, f"{where}: there is no schema of Kubernetes {version}, only of {used}", "schemas")
    except kubernetes_validate.ValidationError as error:
        path = "/".join(map(str, error.absolute_path))
        report.check(False, f"{where}: Kubernetes {version}: {path}: {error.message}", "schemas")
    except kubernetes_validate.SchemaNotFoundError as error:
        report.check(False, f"{where}: {error.message}", "schemas")


def check_triggers(report, where, it, scaler):
    for trigger in it["spec"]["triggers"]:
        if trigger["type"] != "kafka":
            continue
        for key, value in trigger["metadata"].items():
            known = scaler.get(key)
            if not report.check(
                known and key not in NEWER_THAN_SUPPORTED, f"{where}: KEDA's Kafka trigger has no '{key}'", "schemas"
            ):
                continue
            allowed = known.get("allowedValue")
            report.check(
                not allowed or value in allowed, f"{where}: '{key}' is '{value}', not one of {allowed}", "schemas"
            )
        for required in ("bootstrapServers", "consumerGroup", "topic", "lagThreshold", "offsetResetPolicy", "version"):
            report.check(required in trigger["metadata"], f"{where}: the Kafka trigger lacks '{required}'", "schemas")
        for flag in (
            "allowIdleConsumers",
            "excludePersistentLag",
            "limitToPartitionsWithLag",
            "ensureEvenDistributionOfPartitions",
        ):
            value = trigger["metadata"].get(flag, "false")
            report.check(re.fullmatch("true|false", str(value)), f"{where}: '{flag}' is '{value}'", "schemas")
