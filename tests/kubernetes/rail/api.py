"""The API server, asked over HTTPS."""

import http.client
import json
import ssl
import time

# How often a request is made whose connection fails, and the seconds between two tries.
TRIES, PAUSE = 4, 0.5


class ApiError(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    def __init__(self, port, ca, token):
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=ca)

    def call(self, method, path, body=None, kind="application/json", tries=TRIES):
        """What the server answers. A connection that fails is tried again, but a POST only when nobody took it: it may have been done."""
        again = ConnectionRefusedError if method == "POST" else (OSError, http.client.HTTPException)
        for left in reversed(range(tries)):
            try:
                return self._call_once(method, path, body, kind)
            except again:
                if not left:
                    raise
                time.sleep(PAUSE)

    def _call_once(self, method, path, body, kind):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
        try:
            headers = {"authorization": f"Bearer {self.token}", "content-type": kind}
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 300:
            raise ApiError(answer.status, text[:500])
        return json.loads(text) if text.startswith("{") else text

    def get(self, path):
        return self.call("GET", path)

    def find(self, path):
        """As `get`; `None` when there is no such thing."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def post(self, path, body):
        return self.call("POST", path, body)

    def patch(self, path, body):
        return self.call("PATCH", path, body, "application/strategic-merge-patch+json")

    def is_ready(self):
        try:
            return self.call("GET", "/readyz", tries=1) == "ok"
        except (OSError, http.client.HTTPException, ApiError):
            return False
