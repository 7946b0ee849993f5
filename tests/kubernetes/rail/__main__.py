"""Installs the chart into a real cluster without containers, and does to it what operators do. See README.md.

N20, A23: the API server accepts every rendering, and KEDA scales match and deliver by their own lag, up in a burst and down later."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from . import books, dry_run
from .cluster import NAMESPACE, Cluster
from .paths import BINARY
from .processes import Failure, run, say
from .receiver import Receiver
from .story import Story


def services():
    """The addresses of Kafka, Postgres and Redis."""
    found = {name: os.environ.get(f"MAILRAIL_TEST_{name}") for name in ("KAFKA", "POSTGRES", "REDIS")}
    missing = [f"MAILRAIL_TEST_{name}" for name, address in found.items() if not address]
    if missing:
        raise Failure(f"not set: {', '.join(missing)}; run it as `tests/services/with tests/kubernetes/run`")
    return found


def database(server, stack):
    """A fresh one, dropped at the end, and its URL."""
    name = f"kubernetes_{secrets.token_hex(4)}"
    run(["psql", server, "-qc", f"CREATE DATABASE {name}"], os.environ, "psql")
    stack.callback(drop, server, name)
    return f"{server.rsplit('/', 1)[0]}/{name}"


def drop(server, name):
    """Drops a database, also when something is still connected. That it could not be is said, and is no failure of what was tested."""
    try:
        run(["psql", server, "-qc", f"DROP DATABASE {name} WITH (FORCE)"], os.environ, "psql")
    except (Failure, OSError) as failure:
        say(f"database {name} stays: {failure}")


def prepare(cluster, addresses, store, folder):
    """Secrets and the values that only this run knows; gives the file of values and the administrator's token."""
    token = secrets.token_hex(32)
    cluster.secret("rail-store", url=store)
    cluster.secret("rail-keys", **{"encryption-key": secrets.token_hex(32), "admin-token": token})
    cluster.secret("rail-redis", url=addresses["REDIS"])
    values = folder / "values.json"
    values.write_text(json.dumps({
        "kafka": {"brokers": addresses["KAFKA"].split(",")},
        "settings": {"topic_prefix": f"kubernetes-{secrets.token_hex(4)}."},
    }))
    return values, token


def tell(programs, folder, stack):
    """The whole story; gives the result as far as it came, and what does not hold."""
    started = time.monotonic()
    # What was not come to stays null.
    result = {"installed": False} | dict.fromkeys(("dry_runs", "peak_replicas", "final_replicas", "lost", "order_violations"))

    def step(text):
        say(f"[{time.monotonic() - started:4.0f} s] {text}")

    try:
        books.check_itself()
        addresses = services()
        # What is begun later ends earlier. Pods use it to their end.
        store = database(addresses["POSTGRES"], stack)
        # It is stopped after them: pods that end want to bring what they have.
        receiver = Receiver(BINARY, folder, stack)
        cluster = Cluster(programs, folder, stack)
        step("checking what the chart renders against the API server ...")
        result["dry_runs"] = dry_run.check_all(cluster.helm, cluster.kubectl, NAMESPACE)
        values, token = prepare(cluster, addresses, store, folder)
        story = Story(cluster, receiver, values, token, result)
        step("installing ...")
        story.install("install")
        result["installed"] = True
        story.set_up(folder)
        story.load.start()
        step("a burst of events ...")
        story.scale()
        step("upgrading under load ...")
        story.upgrade()
        step("uninstalling under load ...")
        story.uninstall()
        step("installing again ...")
        story.install("install")
        step("waiting for the last deliveries ...")
        story.finish()
        story.close_books()
        step("all of it holds")
        return result, None
    except Failure as failure:
        return result, failure
    except Exception as error:
        traceback.print_exc()
        return result, error


def main():
    programs = Path(sys.argv[1]).resolve()
    # Everything is ended as after an error.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="mailrail-kubernetes."))
    try:
        with contextlib.ExitStack() as stack:
            result, failure = tell(programs, folder, stack)
    except BaseException as error:
        # It was interrupted, or something could not be stopped.
        say(f"FAILED: {error!r}\nlogs: {folder}")
        raise
    if failure:
        say(f"FAILED: {failure}\nlogs: {folder}")
    else:
        shutil.rmtree(folder)
    print(json.dumps(result, separators=(",", ":")))
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
