"""An OAuth issuer on loopback: metadata, keys that can change, and tokens for whoever has a client's secret."""

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from loopback import Asked, Loopback, Reply

AUDIENCE = "http://127.0.0.1:8765/mcp"


class Key:
    """A key pair with its id."""

    def __init__(self, key_id: str) -> None:
        self.id = key_id
        self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def published(self) -> dict[str, Any]:
        """The public half as the issuer publishes it."""
        found: dict[str, Any] = json.loads(ECAlgorithm.to_jwk(self.private.public_key()))
        return found | {"kid": self.id, "use": "sig", "alg": "ES256"}


class LocalIssuer(Loopback):
    """What it publishes, what it was asked, and what it signs."""

    def __init__(self) -> None:
        self.key = Key("one")
        self.published = [self.key.published]
        self.asked: list[str] = []
        self.answers = True
        self.listen()

    def claims(self, subject: str = "ada-1", **others: Any) -> dict[str, Any]:
        """Return what a valid token says; None takes a claim away."""
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "exp": int(time.time()) + 600, **others}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, subject: str = "ada-1", *, key: Key | None = None, **others: Any) -> str:
        """Return a token, signed by a key of the issuer's or by another."""
        by = key or self.key
        return jwt.encode(self.claims(subject, **others), by.private, "ES256", headers={"kid": by.id})

    def reply(self, asked: Asked) -> Reply:
        found = self._at(asked.path, parse_qs(asked.body.decode()), asked.headers.get("authorization", ""))
        return Reply(200 if found is not None else 404, json.dumps(found or {}).encode())

    def _at(self, path: str, form: dict[str, list[str]], authorization: str) -> dict[str, Any] | None:
        """Return what stands at a path; None for nothing."""
        self.asked.append(path)
        if not self.answers:
            return None
        if path == "/.well-known/oauth-authorization-server":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        if path == "/keys":
            return {"keys": self.published}
        if path == "/token" and authorization == "Basic " + base64.b64encode(b"agent:secret").decode():
            resource = form.get("resource", [""])[0]
            return {"access_token": self.token("agent", aud=resource), "token_type": "Bearer", "expires_in": 600}
        return None
