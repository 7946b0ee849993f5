"""Producers that post events to whichever ingest pod is ready, each event until it is accepted."""

import http.client
import json
import threading
import time

from .processes import Failure, say, until

TENANT, TYPE = "acme", "numbered"
TOKEN = "kubernetes-test-key-of-the-only-producer"
PRODUCERS = 4
KEYS_EACH = 10
# Seconds between two events of a producer: about 40 events a second in all.
STEADY = 0.1
# Longest that a producer waits for a door. Between uninstall and install there is none.
PATIENCE = 240


class Load:
    """Producers with ordering keys of their own: the next event of a key goes out when the one before was accepted."""

    def __init__(self, node):
        self.node = node
        self.accepted = set()
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.burst_left = 0
        self.threads = [threading.Thread(target=self._produce, args=(at,), daemon=True) for at in range(PRODUCERS)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def burst(self, count):
        """The next `count` events come without a pause; comes back when they were accepted."""
        goal = len(self.accepted) + count
        with self.lock:
            self.burst_left = count
        until(f"{count} more events are accepted", PATIENCE, lambda: len(self.accepted) >= goal or self.node.faults)
        say(f"  {count} events accepted at once")

    def stop(self):
        """Lets each producer finish what it is at."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE + 10)

    def _produce(self, at):
        door = Door(self.node, at)
        try:
            for number in range(10**9):
                for key in (f"key-{at}-{index}" for index in range(KEYS_EACH)):
                    if self.stopping.is_set():
                        return
                    door.post_until_accepted(key, number)
                    with self.lock:
                        self.accepted.add((key, number))
                        pause = self.burst_left <= 0
                        self.burst_left -= 1
                    if pause:
                        self.stopping.wait(STEADY)
        except Exception as error:
            self.node.fault(f"a producer: {error!r}")


class Door:
    """A connection to one of the ingest pods."""

    def __init__(self, node, at):
        self.node, self.at = node, at
        self.connection = None

    def post_until_accepted(self, key, number):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            status = self._post(key, number)
            if status == 202:
                return
            # A key is not known to a pod before it has read the set-up; what is above can pass too.
            if status is not None and status not in (401, 429) and status < 500:
                raise Failure(f"event {key} {number} is refused with {status}")
            time.sleep(0.05)
        raise Failure(f"event {key} {number} was not accepted within {PATIENCE} s")

    def _post(self, key, number):
        """The status; `None` when there was no answer, and so nobody knows."""
        try:
            if self.connection is None and not self._connect():
                return None
            body = json.dumps({"key": key, "seq": number})
            self.connection.request("POST", "/v1/events", body=body, headers={
                "authorization": f"Bearer {TOKEN}", "content-type": "application/json", "ce-specversion": "1.0",
                "ce-id": f"{key}-{number}", "ce-source": "/kubernetes", "ce-type": TYPE, "ce-partitionkey": key,
            })
            answer = self.connection.getresponse()
            answer.read()
            if answer.status >= 500:
                # It may be about to go: another one may do better.
                self.connection = None
            return answer.status
        except (OSError, http.client.HTTPException):
            self.connection = None
            return None

    def _connect(self):
        ready = self.node.ready("ingest")
        if ready:
            pod = ready[self.at % len(ready)]
            self.connection = http.client.HTTPConnection(pod.address, 8080, timeout=15)
        return bool(ready)
