"""Checks of what stands in for the kubelet, with `sh` as the binary. `run` does them first; they take seconds."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import __main__ as program
from . import api, pod
from .node import Node
from .processes import Failure, run

SERVICE = {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}}


class World:
    """A node without a cluster: the API server is this list of pods."""

    def __init__(self, folder):
        self.node = Node.__new__(Node)
        self.node.__dict__.update(binary="sh", folder=Path(folder), api=self, pods={}, faults=[], seen={}, network="127.0.0")
        self.node.fault = self.node.faults.append
        self.items, self.statuses, self.deleted = [], [], []

    def get(self, path):
        return {"items": list(self.items)} if "fieldSelector" in path else SERVICE

    def patch(self, path, body):
        self.statuses.append((body["status"]["phase"], body["status"]["containerStatuses"][0]["state"]))

    def call(self, method, path, body):
        assert (method, body["gracePeriodSeconds"]) == ("DELETE", 0)
        self.deleted.append(body["preconditions"]["uid"])
        self.items.clear()

    def add(self, script, init=None, **spec):
        """A pod whose container is this script; gives what the node made of it."""

        def container(does):
            return {"name": "c", "image": "i", "args": ["-c", does]}

        spec = {"restartPolicy": "Never", "containers": [container(script)], **spec}
        if init:
            spec["initContainers"] = [container(init)]
        self.items.append({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
        self.node._look()
        return self.node.pods["u"]

    def end(self, added):
        added.thread.join(30)
        assert not added.thread.is_alive()
        return self.statuses[-1][0]

    def delete_while_it_runs(self):
        self.items[0]["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": 5}
        self.node._look()


class Pods(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.world = World(folder.name)

    def test_a_job_ends_as_its_process_does(self):
        self.assertEqual(self.world.end(self.world.add("exit 0")), "Succeeded")
        self.assertEqual(self.world.node.faults, [])

    def test_a_job_that_fails_is_a_fault(self):
        self.assertEqual(self.world.end(self.world.add("exit 3")), "Failed")
        self.assertIn("ended with 3", self.world.node.faults[0])
        self.assertEqual(self.world.statuses[-1][1]["terminated"]["exitCode"], 3)

    def test_a_job_that_is_late_has_failed_whatever_its_exit_code(self):
        late = self.world.add("trap 'exit 0' TERM; while :; do sleep 0.05; done", activeDeadlineSeconds=1)
        self.assertEqual(self.world.end(late), "Failed")
        self.assertIn("with 0: it may run for 1 s", self.world.node.faults[0])

    def test_a_pod_that_is_deleted_is_removed_wherever_it_is(self):
        forever = "exec sleep 60"
        for script, init in ((forever, None), ("exit 0", forever)):
            added = self.world.add(script, init)
            self.world.delete_while_it_runs()
            self.assertEqual(self.world.end(added), "Failed")
            self.world.node._look()
            self.assertEqual((self.world.deleted, self.world.node.faults), (["u"], []))
            self.world.deleted.clear()
            self.world.node.pods.clear()

    def test_a_pod_that_ended_before_it_was_told_to_go_is_removed(self):
        self.world.end(self.world.add("exit 0"))
        self.world.delete_while_it_runs()
        self.assertEqual(self.world.deleted, ["u"])

    def test_a_service_without_ready_pods_is_named(self):
        with mock.patch.object(pod, "SERVICE_SECONDS", 0):
            added = self.world.add("exit 0")
            with self.assertRaisesRegex(Failure, "a pod of Service web is ready"):
                added._at_a_pod("http://web:80")
        with self.assertRaisesRegex(Failure, "Service web has no port 81"):
            added._at_a_pod("http://web:81")
        self.world.end(added)


class Calls(unittest.TestCase):
    def call(self, method, *outcomes):
        client = api.Api.__new__(api.Api)
        with mock.patch.object(api, "PAUSE", 0), mock.patch.object(client, "_call_once", side_effect=outcomes) as once:
            try:
                return client.call(method, "/"), once.call_count
            except OSError:
                return None, once.call_count

    def test_a_connection_that_fails_is_tried_again_a_few_times(self):
        self.assertEqual(self.call("GET", ConnectionResetError(), TimeoutError(), "ok"), ("ok", 3))
        self.assertEqual(self.call("GET", *[ConnectionResetError()] * 9), (None, api.TRIES))

    def test_a_post_that_may_have_been_done_is_not_made_again(self):
        self.assertEqual(self.call("POST", ConnectionRefusedError(), "ok"), ("ok", 2))
        self.assertEqual(self.call("POST", ConnectionResetError(), "ok"), (None, 1))


class Ends(unittest.TestCase):
    def test_a_command_that_does_not_end_is_named(self):
        with self.assertRaisesRegex(Failure, "(?s)it has not ended after 0.5 s:.*so far"):
            run(["sh", "-c", "echo so far; exec sleep 60"], None, "it", seconds=0.5)

    def test_a_database_is_dropped_at_the_end_and_one_that_cannot_be_fails_nothing(self):
        for fails in (False, True):
            asked = []

            def answer(args, *_):
                asked.append(args[-1])
                if fails and "DROP" in args[-1]:
                    raise Failure("psql ended with 1")

            with mock.patch.object(program, "run", answer), mock.patch.object(sys, "stderr", io.StringIO()) as said:
                with contextlib.ExitStack() as stack:
                    url = program.database("postgres://host/postgres", stack)
            name = url.removeprefix("postgres://host/")
            self.assertEqual(asked, [f"CREATE DATABASE {name}", f"DROP DATABASE {name} WITH (FORCE)"])
            self.assertEqual(name in said.getvalue(), fails)

    def logs_are_left(self, tell):
        with tempfile.TemporaryDirectory() as parent, contextlib.ExitStack() as stack:
            folder = Path(parent) / "logs"
            folder.mkdir()
            for target, name, value in (
                (program, "tell", tell), (program.tempfile, "mkdtemp", lambda **_: str(folder)), (program.signal, "signal", mock.Mock()),
                (sys, "argv", ["rail", "."]), (sys, "stderr", io.StringIO()), (sys, "stdout", io.StringIO()),
            ):
                stack.enter_context(mock.patch.object(target, name, value))
            with contextlib.suppress(SystemExit, OSError):
                program.main()
            return folder.exists()

    def test_logs_are_removed_only_after_a_success(self):
        def interrupted(*_):
            sys.exit(143)

        def not_stopped(_programs, _folder, stack):
            stack.callback(mock.Mock(side_effect=OSError("it does not stop")))
            return {}, None

        self.assertFalse(self.logs_are_left(lambda *_: ({}, None)))
        for tell in (lambda *_: ({}, Failure("no")), interrupted, not_stopped):
            self.assertTrue(self.logs_are_left(tell))


if __name__ == "__main__":
    unittest.main()
