"""What is done to an installation, and what must hold after each step."""

import json

from .books import balance
from .cluster import NAMESPACE
from .load import TENANT, TOKEN, TYPE, Load
from .paths import BINARY, CHART, VALUES
from .processes import Failure, run, say, until
from .receiver import DELAY_MS, ENDPOINT, SECRET, SLOW_MS

RELEASE = "rail"
DELIVER = f"{RELEASE}-mailrail-default-deliver"
MOST, LEAST = 4, 1
# At 16 deliveries a second of all pods, with a slow receiver: more than PATIENCE. At 320, with a fast one: 20 seconds.
BURST = 6000
# Longest wait for anything of a step, on a machine that others use too.
PATIENCE = 300


class Story:
    def __init__(self, cluster, receiver, values, admin_token, result):
        """`result` gets the figures as they come."""
        self.cluster, self.node, self.receiver = cluster, cluster.node, receiver
        self.values, self.admin_token, self.result = values, admin_token, result
        self.load = Load(self.node)

    def install(self, verb, *more):
        args = [verb, RELEASE, CHART, "--namespace", NAMESPACE, "--values", VALUES, "--values", self.values, *more]
        try:
            self.cluster.helm(*args, "--wait", "--timeout", f"{PATIENCE}s")
        finally:
            # What a pod says comes first.
            self.check()

    def check(self):
        """No pod did what it should not, and the cluster itself runs."""
        if self.node.faults:
            # All of it was said when it happened.
            raise Failure("; ".join(fault.splitlines()[0] for fault in self.node.faults))
        if ended := self.cluster.plane.ended():
            raise Failure("\n".join(ended))

    def set_up(self, folder):
        """Tells the control API who sends and who receives; then the tests of the chart pass."""
        control = until("control is ready", PATIENCE, lambda: self.node.ready("control"))[0]
        file = folder / "setup.yaml"
        endpoint = {"id": ENDPOINT, "url": f"{self.receiver.address}/{ENDPOINT}", "secret": SECRET, "class": "in-order"}
        file.write_text(json.dumps({
            "version": 1,
            "classes": [{"id": "in-order", "tolerates_reordering": False, "fixed_buckets": 64}],
            "tenants": [{
                "id": TENANT, "keys": [{"id": "producer", "token": TOKEN}],
                "apps": [{
                    "id": "app", "endpoints": [endpoint],
                    "subscriptions": [{"id": "all", "endpoint": ENDPOINT, "event_types": [TYPE]}],
                }],
            }],
        }))
        env = {"MAILRAIL_ADMIN_TOKEN": self.admin_token}
        run([BINARY, "apply", "-f", file, "--url", f"http://{control.address}:8081"], env, "mailrail apply")
        self.cluster.helm("test", RELEASE, "--namespace", NAMESPACE, "--timeout", f"{PATIENCE}s")

    def scale(self):
        """A burst brings more pods, its end takes them away."""
        self.await_delivered(at_least=100)
        self.grow()
        self.await_delivered(at_least=BURST)
        self.cluster.await_replicas(DELIVER, LEAST, PATIENCE)
        self.check()
        say(f"  ready pods of deliver: {self.node.seen['deliver']}")

    def grow(self):
        """A burst until all pods are there. Until then deliveries are slow, so that it waits for them however slow the machine is."""
        self.receiver.delay(SLOW_MS)
        self.load.burst(BURST)
        self.cluster.await_replicas(DELIVER, MOST, PATIENCE)
        self.receiver.delay(DELAY_MS)
        self.result["peak_replicas"] = MOST
        say(f"  {MOST} pods of deliver are ready")

    def upgrade(self):
        """Other settings: every pod is replaced while thousands of events wait."""
        self.grow()
        before = {pod.name for pod in self.node.running()}
        received = self.receiver.delivered()
        self.install("upgrade", "--set", "settings.deliver.commit_interval=250ms")
        left = before & {pod.name for pod in self.node.running() if not pod.going.is_set()}
        if left:
            raise Failure(f"the upgrade did not replace {sorted(left)}")
        self.await_delivered(at_least=received + 100)
        self.check()

    def uninstall(self):
        """While much waits: it stays in the log, and nothing that was told to go is killed."""
        self.receiver.delay(SLOW_MS)
        self.load.burst(BURST // 4)
        self.cluster.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", f"{PATIENCE}s")
        self.cluster.await_no_pods(PATIENCE)
        self.check()
        waiting = len(self.load.accepted) - self.receiver.delivered()
        if waiting <= 0:
            raise Failure("nothing was left in the log by the uninstall: it proves nothing")
        self.receiver.delay(DELAY_MS)
        say(f"  {waiting} accepted events wait in the log, and no pod is there")

    def finish(self):
        """Everything that was accepted comes to its end; one pod is enough again."""
        self.load.stop()
        self.check()
        self.await_delivered(at_least=len(self.load.accepted))
        self.cluster.await_replicas(DELIVER, LEAST, PATIENCE)
        self.result["final_replicas"] = self.cluster.replicas(DELIVER)

    def await_delivered(self, at_least):
        """As long as deliveries come."""
        while (before := self.receiver.delivered()) < at_least:
            until(
                f"the receiver has more than {before} of {at_least}", PATIENCE // 2,
                lambda: self.receiver.delivered() > before or self.node.faults, every=0.5,
            )
            self.check()

    def close_books(self):
        """Every accepted event was received, and nothing that nobody accepted; in order."""
        report, accepted = self.receiver.report(), self.load.accepted
        lost, violations, wrong = balance(accepted, self.receiver.taken(), report)
        self.result |= {"lost": lost, "order_violations": violations}
        say(f"  accepted {len(accepted)}, received {report['received']} requests of {report['deliveries']} deliveries, "
            f"{report['duplicates']} requests repeated")
        if lost or violations or wrong:
            raise Failure("; ".join(["the books do not balance", *wrong]))
