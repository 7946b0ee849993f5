"""Processes of ours: started, asked, stopped. None outlives this program, however it ends."""

import signal
import socket
import subprocess
import sys
import time


# Longest that a command may run. Helm's and kubectl's own limits come before it, also one after the other.
COMMAND_SECONDS = 900


class Failure(Exception):
    """Something does not hold; the text says what."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, seconds, holds, every=0.2):
    """Waits until `holds` gives something true, and gives it; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise Failure(f"after {seconds} s it has not come to this: {what}")
        time.sleep(every)


def run(args, env, what, stdin=None, seconds=COMMAND_SECONDS):
    """Runs a command to its end, and kills it after `seconds`; gives what it printed to both outputs."""
    try:
        done = subprocess.run([str(it) for it in args], env=env, input=stdin, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        said = b"".join(it or b"" for it in (late.stdout, late.stderr)).decode(errors="replace")
        raise Failure(f"{what} has not ended after {seconds} s:\n{said}") from late
    if done.returncode != 0:
        raise Failure(f"{what} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


class Process:
    """A program that runs until it is stopped; what it prints goes to a file."""

    def __init__(self, name, args, env, log):
        self.name, self.log = name, log
        # The kernel kills it when the thread that started it ends before it does.
        command = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, args)]
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def ended(self):
        """Its exit code, once it has ended; negative: the signal that ended it."""
        return self.child.poll()

    def wait(self, seconds):
        """Its exit code; `None` when it still runs after that long."""
        try:
            return self.child.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return None

    def terminate(self):
        if self.ended() is None:
            self.child.send_signal(signal.SIGTERM)

    def stop(self, seconds=15):
        """SIGTERM, and after `seconds` SIGKILL; its exit code."""
        self.terminate()
        code = self.wait(seconds)
        if code is None:
            self.child.kill()
            code = self.child.wait()
        return code

    def tail(self, lines=15):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    def await_start(self, seconds, answers):
        """Waits until it answers; fails at once when it ends."""

        def holds():
            if self.ended() is not None:
                raise Failure(f"{self.name} ended with {self.ended()}:\n{self.tail()}")
            return answers()

        try:
            until(f"{self.name} answers", seconds, holds)
        except Failure as failure:
            raise Failure(f"{failure}\n{self.tail()}") from failure
