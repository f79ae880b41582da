"""Checks `payments.py` in a given folder against a payment service with faults."""

import hashlib
import hmac
import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SECRET = "whsec_check"
NOW = 1_800_000_000.0


class Service(ThreadingHTTPServer):
    """Charges orders, and has the faults that the task names."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens = 0
        self.valid: set[str] = set()
        self.charges: dict[str, tuple[str, str, int]] = {}
        """Payment, order and amount by key."""
        self.bad_moments: list[int] = []
        """Statuses that are returned for the next charges instead of 201, one after another."""
        self.asked = 0

    def requests(self) -> int:
        """Return how many charges were requested since `asked` was set to 0."""
        return self.asked


class _Handler(BaseHTTPRequestHandler):
    @property
    def service(self) -> Service:
        assert isinstance(self.server, Service)
        return self.server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/token":
            if (body.get("client_id"), body.get("client_secret")) != ("shop", "s3cret"):
                return self._send(401, {})
            self.service.tokens += 1
            token = f"token-{self.service.tokens}"
            self.service.valid = {token}
            return self._send(200, {"access_token": token, "expires_in": 3600})
        return self._charge(body)

    def _charge(self, body: dict[str, Any]) -> None:
        service = self.service
        service.asked += 1
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in service.valid:
            return self._send(401, {})
        key = self.headers.get("Idempotency-Key") or f"none-{service.asked}"
        order, amount = str(body.get("order_id")), int(body.get("amount_cents", 0))
        if order.startswith("declined"):
            return self._send(402, {"error": "declined"})
        moment = service.bad_moments.pop(0) if service.bad_moments else 201
        if moment != 429:
            service.charges.setdefault(key, (f"pay_{len(service.charges) + 1}", order, amount))
        if moment != 201:
            return self._send(moment, {"error": "busy"})
        return self._send(201, {"id": service.charges[key][0]})

    def _send(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        if status in (429, 503):
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """End with code 0 if everything works."""
    spec = importlib.util.spec_from_file_location("payments", Path(sys.argv[1]) / "payments.py")
    if spec is None or spec.loader is None or not (Path(sys.argv[1]) / "payments.py").is_file():
        sys.exit("there is no payments.py")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # an exception in the checked code ends this with code 1 too
    check_charges(module)
    check_webhooks(module)


def check_charges(module: Any) -> None:
    """Charge orders through every fault."""
    with Service() as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        client = module.PaymentClient(f"http://127.0.0.1:{service.server_port}", "shop", "s3cret")
        first = client.charge("order-1", 1250)
        expect(first == "pay_1" and service.tokens == 1, "a plain charge does not work")
        client.charge("order-2", 99)
        expect(service.tokens == 1, "a token is asked for although there is one")
        service.valid = set()
        client.charge("order-3", 5)
        expect(service.tokens == 2, "a token that ended early is not renewed")
        service.bad_moments = [503, 429, 503, 429]
        client.charge("order-4", 700)
        expect(len(service.charges) == 4, f"four orders gave {len(service.charges)} charges")
        client.charge("order-5", 700)
        expect([amount for _, _, amount in service.charges.values()] == [1250, 99, 5, 700, 700], "amounts are wrong")
        service.bad_moments, service.asked = [503] * 9, 0
        raises(module.PaymentFailed, lambda: client.charge("order-6", 1), "a service that stays busy")
        expect(service.requests() == 5, f"a charge was tried {service.requests()} times instead of 5")
        service.bad_moments, service.asked = [], 0
        raises(module.PaymentDeclined, lambda: client.charge("declined-1", 1), "a declined charge")
        expect(service.requests() == 1, "a declined charge was tried again")
        raises(ValueError, lambda: client.charge("order-7", 0), "an amount of 0")
        service.shutdown()


def check_webhooks(module: Any) -> None:
    """Receive real, forged, old and repeated webhooks."""
    inbox, body = module.WebhookInbox(SECRET), b'{"id": "evt_1", "type": "paid"}'
    good = signed(body, NOW)
    expect(inbox.receive(body, f"{good},v1={'0' * 64}", NOW) == json.loads(body), "a real webhook is not taken")
    expect(inbox.receive(body, good, NOW + 5) is None, "an event that came before is taken again")
    other = b'{"id": "evt_2", "type": "paid"}'
    raises(module.WebhookRejected, lambda: inbox.receive(other, good, NOW), "another body under the signature")
    for header in ("", "v1=00", "t=now,v1=00", f"t={NOW:.0f}", f"t={NOW:.0f},v1=é"):
        raises(module.WebhookRejected, lambda given=header: inbox.receive(other, given, NOW), f"the header {header!r}")
    late = signed(other, NOW - 301)
    raises(module.WebhookRejected, lambda: inbox.receive(other, late, NOW), "a webhook of 301 s ago")
    broken = b"not json"
    raises(module.WebhookRejected, lambda: inbox.receive(broken, signed(broken, NOW), NOW), "a body that is no JSON")
    expect(inbox.receive(other, signed(other, NOW - 299), NOW) == json.loads(other), "one of 299 s ago is not taken")


def signed(body: bytes, at: float) -> str:
    """Return the signature header of a webhook."""
    moment = f"{at:.0f}"
    return f"t={moment},v1={hmac.new(SECRET.encode(), moment.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def expect(truth: bool, otherwise: str) -> None:
    """End with a message unless the condition is true."""
    if not truth:
        sys.exit(otherwise)


def raises(kind: type[BaseException], call: Any, what: str) -> None:
    """End with a message unless a call raises the error."""
    try:
        call()
    except kind:
        return
    sys.exit(f"{what} is not refused with {kind.__name__}")


if __name__ == "__main__":
    main()
