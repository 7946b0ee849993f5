"""KEDA beside the cluster: its operator and its metrics server, reached by the API server through a Service of type ExternalName."""

import base64
import shutil

from .processes import free_port

NAMESPACE = "keda"
SERVICE = "keda-metrics-apiserver"
API = "v1beta1.external.metrics.k8s.io"


def start(plane):
    """Starts both and waits until the API server passes requests for metrics on to them. The CRDs are there already."""
    port, operator_port, health = free_port(), free_port(), free_port()
    _register(plane, port)
    folder = plane.folder / "keda"
    folder.mkdir()
    names = f"DNS:{SERVICE}.{NAMESPACE}.svc,DNS:localhost,IP:127.0.0.1"
    certificate, key = plane.certificates.issue("keda", SERVICE, names)
    for source, name in ((plane.certificates.ca, "ca.crt"), (certificate, "tls.crt"), (key, "tls.key")):
        shutil.copy(source, folder / name)
    env = {
        "KUBECONFIG": str(plane.kubeconfig), "POD_NAMESPACE": NAMESPACE, "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "", "HOME": str(folder),
    }
    plane.start("keda-operator", "keda-operator", [
        f"--cert-dir={folder}", f"--metrics-service-bind-address=127.0.0.1:{operator_port}",
        f"--health-probe-bind-address=127.0.0.1:{health}", "--enable-prometheus-metrics=false",
        "--enable-webhook-patching=false", "--enable-apiservice-patching=false",
    ], env)
    adapter = plane.start("keda-adapter", "keda-adapter", [
        f"--secure-port={port}", "--bind-address=127.0.0.1", f"--port={free_port()}",
        f"--metrics-service-address=127.0.0.1:{operator_port}", f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-private-key-file={folder / 'tls.key'}",
        f"--lister-kubeconfig={plane.kubeconfig}", f"--authentication-kubeconfig={plane.kubeconfig}",
        f"--authorization-kubeconfig={plane.kubeconfig}",
    ], env)
    adapter.await_start(120, lambda: _is_available(plane.api))


def _register(plane, port):
    api, ca = plane.api, base64.b64encode(plane.certificates.ca.read_bytes()).decode()
    api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.post(f"/api/v1/namespaces/{NAMESPACE}/services", {
        "metadata": {"name": SERVICE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    })
    group, version = "external.metrics.k8s.io", "v1beta1"
    api.post("/apis/apiregistration.k8s.io/v1/apiservices", {
        "metadata": {"name": API},
        "spec": {
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port}, "caBundle": ca, "group": group,
            "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
        },
    })
    # As KEDA's own manifests: the autoscaler may read external metrics.
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    name = "keda-external-metrics-reader"
    api.post(f"{rbac}/clusterroles", {
        "metadata": {"name": name}, "rules": [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}],
    })
    api.post(f"{rbac}/clusterrolebindings", {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"}],
    })


def _is_available(api):
    service = api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{API}")
    conditions = service.get("status", {}).get("conditions", [])
    return any(it["type"] == "Available" and it["status"] == "True" for it in conditions)
