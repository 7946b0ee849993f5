"""The only node: runs every pod that the scheduler gives it, with the real binary and real probes."""

import secrets
import threading
import time

from .api import ApiError
from .pod import Pod
from .processes import say

NAME = "local"
POLL_SECONDS = 0.3
# Far more than the pods of this test ask for.
CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "200", "ephemeral-storage": "1Ti"}


class Node(threading.Thread):
    def __init__(self, api, binary, folder):
        super().__init__(name="node", daemon=True)
        self.api, self.binary, self.folder = api, binary, folder
        self.pods, self.faults = {}, []
        self.stopping = threading.Event()
        # Pods of two runs at the same time listen at other addresses.
        self.network = f"127.{100 + secrets.randbelow(100)}.{secrets.randbelow(256)}"
        # How many pods of each role were ready, each time that it changed.
        self.seen = {}
        folder.mkdir()
        self._register()

    def _register(self):
        self.api.post("/api/v1/nodes", {"metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": NAME}}})
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "it runs pods as processes"}
        self.api.patch(f"/api/v1/nodes/{NAME}/status", {
            "status": {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [ready]},
        })
        # The API server gives every new node one, and a controller that does not run here takes it away.
        self.api.call("PATCH", f"/api/v1/nodes/{NAME}", {"spec": {"taints": None}}, "application/merge-patch+json")

    def run(self):
        try:
            while not self.stopping.wait(POLL_SECONDS):
                self._look()
        except Exception as error:
            self.fault(f"the node: {error!r}")

    def _look(self):
        for spec in self.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NAME}")["items"]:
            uid, leaving = spec["metadata"]["uid"], "deletionTimestamp" in spec["metadata"]
            pod = self.pods.get(uid)
            if leaving and (pod is None or not pod.thread.is_alive()):
                # It goes before it came, or nothing of it runs any more, wherever it was.
                self.delete(f"/api/v1/namespaces/{spec['metadata']['namespace']}/pods/{spec['metadata']['name']}", uid)
            elif pod is None:
                pod = self.pods[uid] = Pod(self, spec, f"{self.network}.{len(self.pods) % 250 + 1}")
                pod.thread.start()
            elif leaving and not pod.going.is_set():
                pod.go(spec["metadata"]["deletionGracePeriodSeconds"])
        for role in {pod.component() for pod in self.pods.values()}:
            seen, ready = self.seen.setdefault(role, [0]), len(self.ready(role))
            if ready != seen[-1]:
                seen.append(ready)

    def ready_pods(self):
        """Those that a Service would send requests to."""
        return [it for it in list(self.pods.values()) if it.is_ready and not it.going.is_set()]

    def ready(self, role):
        return [it for it in self.ready_pods() if it.component() == role]

    def running(self):
        return [it for it in list(self.pods.values()) if it.thread.is_alive()]

    def fault(self, text):
        say(f"  FAULT: {text}")
        self.faults.append(text)

    def patch_status(self, path, status):
        try:
            self.api.patch(f"{path}/status", {"status": status})
        except ApiError as error:
            # It was deleted meanwhile.
            if error.status != 404:
                raise

    def delete(self, path, uid):
        try:
            self.api.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
        except ApiError as error:
            # It is gone, or another one has its name.
            if error.status not in (404, 409):
                raise

    def stop(self):
        """Ends what still runs; nobody asks any more how."""
        self.stopping.set()
        self.join()
        leaving = self.running()
        for pod in leaving:
            pod.go(30)
        end = time.monotonic() + 40
        for pod in leaving:
            pod.thread.join(max(end - time.monotonic(), 0))
