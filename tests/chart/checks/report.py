"""Counts what was checked and says what failed, while it runs."""

import json
import sys


class Report:
    """Each assertion is counted; a failed one is printed at once and once more at the end."""

    def __init__(self):
        self.counts = {"values_files": 0, "objects": 0, "schemas": 0, "assertions": 0}
        self.failures = []

    def progress(self, text):
        print(text, file=sys.stderr, flush=True)

    def add(self, what, count=1):
        self.counts[what] += count

    def check(self, holds, message, what="assertions"):
        """`message` says what is wrong and where; it may be a function, for messages that cost something."""
        self.counts[what] += 1
        if not holds:
            message = message() if callable(message) else message
            self.failures.append(message)
            self.progress(f"  FAILED: {message}")
        return bool(holds)

    def end(self):
        """Prints the line of JSON; the exit status."""
        if self.failures:
            self.progress(f"{len(self.failures)} checks failed:")
            for message in self.failures:
                self.progress(f"  {message}")
        print(json.dumps({**self.counts, "failed": len(self.failures)}))
        return 1 if self.failures else 0
