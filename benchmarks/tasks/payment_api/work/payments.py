"""A client of the payment service."""


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

    def charge(self, order_id: str, amount_cents: int) -> str:
        """Charge an order once and return the payment's id.

        A refused token is renewed; 429 and 503 are tried again, five times in all, waiting as long as the service asks.
        Raises `PaymentDeclined` at once, and `PaymentFailed` in the end; `ValueError` for an amount below 1.
        """
        raise NotImplementedError


class WebhookInbox:
    """Takes webhooks in: only real ones, no older than 300 s, and each event once."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def receive(self, body: bytes, header: str, now: float) -> dict[str, object] | None:
        """Return the event, or None for one that came before (the same `id`). Raises `WebhookRejected`."""
        raise NotImplementedError
