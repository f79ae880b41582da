"""A client of the payment service."""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

TRIES, TOLERANCE_S = 5, 300


class PaymentDeclined(Exception):
    """The service refused the charge; trying again does not help."""


class PaymentFailed(Exception):
    """The charge was not confirmed, after all that can be tried."""


class WebhookRejected(Exception):
    """What came is not from the service, or too old."""


class PaymentClient:
    """Charges orders; a token is asked for when one is needed, and used until it is refused."""

    def __init__(self, base_url: str, client_id: str, client_secret: str) -> None:
        self.base_url, self.client_id, self.client_secret = base_url, client_id, client_secret
        self._token: str | None = None

    def charge(self, order_id: str, amount_cents: int) -> str:
        """Charge an order once and return the payment's id."""
        if amount_cents < 1:
            raise ValueError("the amount must be at least 1")
        key = str(uuid.uuid4())
        for _ in range(TRIES):
            if self._token is None:
                self._token = self._new_token()
            headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": key}
            status, answer, wait_s = self._post(
                "/charges", {"order_id": order_id, "amount_cents": amount_cents}, headers
            )
            if status == 201:
                return answer["id"]
            if status == 402:
                raise PaymentDeclined(order_id)
            if status == 401:
                self._token = None
            elif status in (429, 503):
                time.sleep(wait_s)
            else:
                break
        raise PaymentFailed(order_id)

    def _new_token(self) -> str:
        given = {"client_id": self.client_id, "client_secret": self.client_secret}
        status, answer, _ = self._post("/token", given, {})
        if status != 200:
            raise PaymentFailed("no token")
        return answer["access_token"]

    def _post(self, path: str, value: object, headers: dict[str, str]) -> tuple[int, dict[str, Any], float]:
        data = json.dumps(value).encode()
        request = urllib.request.Request(self.base_url + path, data, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read()), 0.0
        except urllib.error.HTTPError as error:
            return error.code, {}, float(error.headers.get("Retry-After", "0"))


class WebhookInbox:
    """Takes webhooks in: only real ones, no older than 300 s, and each event once."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._seen: set[object] = set()

    def receive(self, body: bytes, header: str, now: float) -> dict[str, object] | None:
        """Return the event, or None for one that came before."""
        parts = [part.partition("=") for part in header.split(",")]
        moments = [value for name, _, value in parts if name == "t"]
        if len(moments) != 1 or not moments[0].isdecimal() or abs(now - int(moments[0])) > TOLERANCE_S:
            raise WebhookRejected("it has no moment, or an old one")
        right = hmac.new(self.secret.encode(), moments[0].encode() + b"." + body, hashlib.sha256).hexdigest()
        given = [value for name, _, value in parts if name == "v1"]
        if not any(hmac.compare_digest(value.encode(), right.encode()) for value in given):
            raise WebhookRejected("it is not signed")
        try:
            event: dict[str, object] = json.loads(body)
        except ValueError as error:
            raise WebhookRejected("it is no JSON") from error
        if event["id"] in self._seen:
            return None
        self._seen.add(event["id"])
        return event
