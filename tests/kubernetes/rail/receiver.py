"""The sample receiver as a process, and what its journal says at the end."""

import json
import re
import urllib.request

from .processes import Process

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
ENDPOINT = "shop"
# With four attempts at a time a pod does 80 deliveries a second.
DELAY_MS = 50
# The same, of an endpoint that has become slow: 4 a second.
SLOW_MS = 1000


def answers_after(milliseconds):
    return f"delay={milliseconds},ok"


class Receiver:
    def __init__(self, binary, folder, stack):
        self.journal = folder / "receipts.jsonl"
        behaviour = f"{ENDPOINT}={SECRET}:{answers_after(DELAY_MS)}"
        self.process = Process("receiver", [binary, "receiver", "--listen", "127.0.0.1:0", "--endpoint", behaviour,
                                            "--journal", self.journal], {}, folder / "receiver.log")
        stack.callback(self.process.stop)
        self.process.await_start(30, self._address)
        self.address = self._address()

    def _address(self):
        found = re.search(r"receiver listens on (http://\S+)", self.process.tail())
        return found and found.group(1)

    def delay(self, milliseconds):
        """From the next request on it takes this long."""
        request = urllib.request.Request(
            f"{self.address}/behaviour/{ENDPOINT}", data=answers_after(milliseconds).encode(), method="PUT"
        )
        urllib.request.urlopen(request, timeout=10).close()

    def report(self):
        with urllib.request.urlopen(f"{self.address}/report", timeout=10) as answer:
            return json.load(answer)

    def delivered(self):
        """Deliveries that it took, each counted once."""
        return self.report()["delivered"]

    def taken(self):
        """The events that it took, as (key, number)."""
        with open(self.journal) as journal:
            receipts = map(json.loads, journal)
            return {
                (it["order"]["group"], it["order"]["sequence"])
                for it in receipts if it["verified"] and 200 <= (it["status"] or 0) < 300
            }
