"""One pod of the node: its containers as processes of the real binary, as its spec says."""

import base64
import datetime
import http.client
import re
import signal
import threading
import time

from .processes import Failure, Process, until

# Of Kubernetes, for what a probe leaves out.
PROBE_DEFAULTS = {"periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
# Longest that a pod looks for a ready one behind a Service, and that one of its containers runs to its end, in seconds.
SERVICE_SECONDS = 60
END_SECONDS = 600
# Where an argument says to ask a Service of the pod's namespace.
SERVICE = re.compile(r"(?P<scheme>(http://)?)(?P<name>[a-z][a-z0-9-]*):(?P<port>[0-9]+)")


class Pod:
    """Runs a pod as a kubelet does: volumes, init containers, probes, the pause before SIGTERM, the grace period.

    What differs from a container: it sees the machine's files, so paths of mounted volumes are replaced in variables and arguments
    by folders; and it shares the network, so `0.0.0.0` in its files becomes an address of its own in 127.0.0.0/8.
    """

    def __init__(self, node, spec, address):
        self.node, self.address, self.name = node, address, spec["metadata"]["name"]
        self.spec, self.meta = spec["spec"], spec["metadata"]
        self.path = f"/api/v1/namespaces/{self.meta['namespace']}/pods/{self.name}"
        self.labels = self.meta.get("labels", {})
        self.going = threading.Event()
        self.is_ready = self.has_started = False
        self.mounts = {}
        # It starts the processes, and the kernel ends those with it.
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def _run(self):
        try:
            self._mount()
            if not self._run_init_containers():
                return
            if self.spec["restartPolicy"] == "Always":
                self._serve()
            else:
                self._run_to_the_end()
        except Exception as error:
            self.node.fault(f"pod {self.name}: {error!r}")
        finally:
            self.is_ready = False

    def component(self):
        return self.labels.get("app.kubernetes.io/component")

    # Volumes.

    def _mount(self):
        folders = {}
        for volume in self.spec.get("volumes", []):
            folder = self.node.folder / self.meta["uid"] / volume["name"]
            folder.mkdir(parents=True)
            for name, content in self._files(volume).items():
                (folder / name).write_bytes(content)
            folders[volume["name"]] = folder
        for container in self.spec.get("initContainers", []) + self.spec["containers"]:
            for mount in container.get("volumeMounts", []):
                # /tmp is the machine's.
                if mount["mountPath"] != "/tmp":
                    self.mounts[mount["mountPath"]] = str(folders[mount["name"]])

    def _files(self, volume):
        if "configMap" in volume:
            found = self._object("configmaps", volume["configMap"]["name"])["data"]
            return {name: text.replace("0.0.0.0:", f"{self.address}:").encode() for name, text in found.items()}
        if "secret" in volume:
            found = self._object("secrets", volume["secret"]["secretName"])["data"]
            items = volume["secret"].get("items") or [{"key": key, "path": key} for key in found]
            return {item["path"]: base64.b64decode(found[item["key"]]) for item in items}
        return {}

    def _object(self, kind, name):
        return self.node.api.get(f"/api/v1/namespaces/{self.meta['namespace']}/{kind}/{name}")

    # Containers.

    def _start(self, container):
        log = self.node.folder / f"{self.name}.{container['name']}.log"
        args = [self._at_a_pod(self._placed(it)) for it in container.get("args", [])]
        return Process(f"{self.name}/{container['name']}", [self.node.binary, *args], self._environment(container), log)

    def _placed(self, text):
        for path, folder in self.mounts.items():
            text = text.replace(path, folder)
        return text

    def _at_a_pod(self, text):
        """The address of a Service as that of one of its ready pods: the network that this machine does not have."""
        found = SERVICE.fullmatch(text)
        if not found:
            return text
        service = self._object("services", found["name"])["spec"]
        target = next((it["targetPort"] for it in service["ports"] if it["port"] == int(found["port"])), None)
        if target is None:
            raise Failure(f"Service {found['name']} has no port {found['port']}")
        pod = until(f"a pod of Service {found['name']} is ready", SERVICE_SECONDS, lambda: self._pod_of(service))
        return f"{found['scheme']}{pod.address}:{pod.port(target)}"

    def _pod_of(self, service):
        return next((it for it in self.node.ready_pods() if service["selector"].items() <= it.labels.items()), None)

    def port(self, name):
        """The number of a port of its first container."""
        return next((it["containerPort"] for it in self.spec["containers"][0]["ports"] if it["name"] == name), name)

    def _environment(self, container):
        """Nothing of the machine's own."""
        env = {}
        for variable in container.get("env", []):
            source = variable.get("valueFrom")
            env[variable["name"]] = self._from(source) if source else self._placed(variable["value"])
        return env

    def _from(self, source):
        """The value that a variable takes from elsewhere."""
        if "fieldRef" in source:
            part, _, field = source["fieldRef"]["fieldPath"].partition(".")
            return {"metadata": self.meta}[part][field]
        ref = source["secretKeyRef"]
        return base64.b64decode(self._object("secrets", ref["name"])["data"][ref["key"]]).decode()

    def _run_init_containers(self):
        for container in self.spec.get("initContainers", []):
            process = self._start(container)
            if why := self._await_end(process):
                self._fail(process, why)
                return False
        return True

    def _await_end(self, process):
        """Why it did not come to a good end by itself, or `None`; the pod's own deadline and its deletion end it."""
        seconds = self.spec.get("activeDeadlineSeconds", END_SECONDS)
        end = time.monotonic() + seconds
        while process.ended() is None and time.monotonic() < end and not self.going.is_set():
            time.sleep(0.05)
        if process.ended() is None:
            # Whatever its exit code is now, it did not do what it is for.
            return f"was stopped, with {process.stop()}: it may run for {seconds} s"
        return f"ended with {process.ended()}" if process.ended() else None

    def _fail(self, process, why):
        if not self.going.is_set():
            self.node.fault(f"{process.name} {why}:\n{process.tail()}")
        self._report("Failed", code=process.ended() or 1)

    def _run_to_the_end(self):
        self._report("Running")
        process = self._start(self.spec["containers"][0])
        if why := self._await_end(process):
            self._fail(process, why)
        else:
            self._report("Succeeded", code=0)

    def _serve(self):
        container = self.spec["containers"][0]
        process = self._start(container)
        self._report("Running")
        self.has_started = self._await_startup(container, process)
        if self.has_started:
            self._probe_until_told_to_go(container, process)
        if self.going.is_set():
            self._stop(container, process)
        elif process.ended() is None:
            self._fail(process, f"did not answer its startup probe and was stopped, with {process.stop()}")
        else:
            self._fail(process, f"ended with {process.ended()}")

    # Probes.

    def _probe(self, probe):
        get = probe["httpGet"]
        connection = http.client.HTTPConnection(self.address, self.port(get["port"]), timeout=probe["timeoutSeconds"])
        try:
            connection.request("GET", get["path"])
            return connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _await_startup(self, container, process):
        """Whether it answered, before it ended, was told to go or used its tries up."""
        probe = PROBE_DEFAULTS | container["startupProbe"]
        for _ in range(probe["failureThreshold"]):
            if self.going.is_set() or process.ended() is not None:
                return False
            if self._probe(probe):
                return True
            self.going.wait(probe["periodSeconds"])
        return False

    def _probe_until_told_to_go(self, container, process):
        """Reports readiness as it changes; comes back when the pod is told to go, or its process has ended."""
        probe = PROBE_DEFAULTS | container["readinessProbe"]
        failures = 0
        while not self.going.is_set() and process.ended() is None:
            failures = 0 if self._probe(probe) else failures + 1
            ready = failures == 0 or (self.is_ready and failures < probe["failureThreshold"])
            if ready != self.is_ready:
                self.is_ready = ready
                self._report("Running", ready=ready)
            self._wait(probe["periodSeconds"], process)

    def _wait(self, seconds, process):
        end = time.monotonic() + seconds
        while time.monotonic() < end and process.ended() is None and not self.going.wait(0.1):
            pass

    # The end.

    def go(self, grace):
        """The API server says that it is being deleted, with this grace period."""
        self.grace = grace
        self.going.set()

    def _stop(self, container, process):
        self.is_ready = False
        self._report("Running")
        end = time.monotonic() + self.grace
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        time.sleep(min(pause, self.grace))
        code = process.stop(end - time.monotonic())
        # Before it has started to listen for signals this is how it ends.
        if code != 0 and (self.has_started or code != -signal.SIGTERM):
            self.node.fault(f"{process.name}: it was told to go and ended with {code}:\n{process.tail()}")

    def _report(self, phase, ready=False, code=None):
        """Tells the API server, as far as controllers look at it."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now, "reason": "Ended"}}
        statuses = [{
            "name": it["name"], "image": it["image"], "imageID": "", "restartCount": 0, "ready": ready,
            "started": code is None, "state": {"running": {"startedAt": now}} if code is None else ended,
        } for it in self.spec["containers"]]
        conditions = [
            {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": now}
            for kind, holds in (("Initialized", True), ("ContainersReady", ready), ("Ready", ready))
        ]
        self.node.patch_status(self.path, {"phase": phase, "conditions": conditions, "containerStatuses": statuses})
