"""etcd, API server, controllers and scheduler of a cluster on 127.0.0.1."""

import json
import secrets
import urllib.request

from .api import Api
from .processes import Process, free_port

# Who may do what: name, group. The controllers and the scheduler have the rights that Kubernetes gives them.
USERS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}


class ControlPlane:
    def __init__(self, programs, folder, certificates, stack):
        """Starts everything; `stack` stops it, the API server before etcd."""
        self.programs, self.folder, self.certificates, self.stack = programs, folder, certificates, stack
        self.processes = []
        self.port = free_port()
        self.tokens = {name: secrets.token_hex(16) for name in USERS}
        self.etcd = self._start_etcd()
        self._start_api_server()
        self.kubeconfig = self._kubeconfig("admin")
        self._start_controllers()
        self._start_scheduler()

    def start(self, name, program, args, env=None):
        """Starts a program of the cluster, which is stopped with it."""
        process = Process(name, [self.programs / program, *args], env or {}, self.folder / f"{name}.log")
        self.stack.callback(process.stop)
        self.processes.append(process)
        return process

    def ended(self):
        """The programs that should run and do not, each with what it said last."""
        return [f"{it.name} ended with {it.ended()}:\n{it.tail()}" for it in self.processes if it.ended() is not None]

    def _start_etcd(self):
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        process = self.start("etcd", "etcd", [
            "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level", "warn",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        ])
        process.await_start(60, lambda: _answers(f"{client}/health"))
        return client

    def _start_api_server(self):
        tokens = self.folder / "tokens.csv"
        tokens.write_text("".join(
            f'{self.tokens[name]},{user},{name},"{group}"\n' for name, (user, group) in USERS.items()
        ))
        certificate, key = self.certificates.issue("apiserver", "kube-apiserver")
        proxy, proxy_key = self.certificates.issue("aggregator", "aggregator")
        private, public = self.certificates.service_account_keys()
        self.service_account_key = private
        ca = self.certificates.ca
        process = self.start("kube-apiserver", "kube-apiserver", [
            f"--etcd-servers={self.etcd}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={ca}",
            f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}", f"--service-account-signing-key-file={private}",
            # For KEDA's metrics, which the API server fetches and passes on.
            f"--requestheader-client-ca-file={ca}", "--requestheader-allowed-names=aggregator",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={proxy}", f"--proxy-client-key-file={proxy_key}",
        ])
        self.api = Api(self.port, ca, self.tokens["admin"])
        process.await_start(120, self.api.is_ready)

    def _start_controllers(self):
        config = self._kubeconfig("controllers")
        port = free_port()
        process = self.start("kube-controller-manager", "kube-controller-manager", [
            f"--kubeconfig={config}", f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={self.folder / 'controllers'}",
            "--leader-elect=false", "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.service_account_key}", f"--root-ca-file={self.certificates.ca}",
            # The node of this test tells nobody that it lives.
            "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller",
            "--kube-api-qps=500", "--kube-api-burst=500",
            # A test does not wait for minutes.
            "--horizontal-pod-autoscaler-sync-period=2s", "--horizontal-pod-autoscaler-downscale-stabilization=5s",
        ])
        process.await_start(60, lambda: self.api.find("/api/v1/namespaces/default/serviceaccounts/default"))

    def _start_scheduler(self):
        config = self._kubeconfig("scheduler")
        self.start("kube-scheduler", "kube-scheduler", [
            f"--kubeconfig={config}", f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={self.folder / 'scheduler'}",
            "--leader-elect=false",
        ])

    def _kubeconfig(self, name):
        """A kubeconfig (JSON is YAML) of one of the users."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.certificates.ca)}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self.tokens[name]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }))
        return path


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False
