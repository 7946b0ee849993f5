"""The whole cluster, and Helm and kubectl for it."""

from . import keda
from .certificates import Certificates
from .control_plane import ControlPlane
from .node import Node
from .paths import BINARY, CRDS
from .processes import run, say, until

NAMESPACE = "rail"
# What pods of the chart must satisfy in any case.
LABELS = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}


class Cluster:
    def __init__(self, programs, folder, stack):
        self.programs = programs
        certificates = Certificates(folder / "certificates")
        say("starting etcd, API server, controllers, scheduler ...")
        self.plane = ControlPlane(programs, folder, certificates, stack)
        self.api = self.plane.api
        self.env = {"KUBECONFIG": str(self.plane.kubeconfig), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self._define()
        say("starting KEDA ...")
        keda.start(self.plane)
        self.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": LABELS}})
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        until("the namespace has its ServiceAccount", 60, lambda: self.api.find(account))
        self.node = Node(self.api, BINARY, folder / "pods")
        self.node.start()
        stack.callback(self.node.stop)

    def _define(self):
        for source in (self.programs / "keda-crds", *CRDS):
            # On the server's side: these are too large for the annotation that apply writes otherwise.
            self.kubectl("apply", "--server-side", "--filename", source)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")

    def kubectl(self, *args, stdin=None):
        return run([self.programs / "kubectl", *args], self.env, f"kubectl {args[0]}", stdin)

    def helm(self, *args):
        return run([self.programs / "helm", *args], self.env, f"helm {args[0]}")

    def secret(self, name, **values):
        self.api.post(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": name}, "stringData": values})

    def deployment(self, name):
        return self.api.find(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")

    def replicas(self, name):
        """How many pods of a Deployment are ready; 0 when there is none."""
        found = self.deployment(name)
        return found["status"].get("readyReplicas", 0) if found else 0

    def await_replicas(self, name, count, seconds):
        def settled():
            if self.node.faults:
                return True
            found = self.deployment(name)
            # Wanted, there and ready.
            return found["spec"]["replicas"] == found["status"].get("replicas") == found["status"].get("readyReplicas") == count

        until(f"{name} has {count} pods", seconds, settled)

    def await_no_pods(self, seconds):
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        until("no pod is left", seconds, lambda: not self.api.get(path)["items"] and not self.node.running())
