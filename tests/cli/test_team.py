"""`team`: people let in, changed, revoked and forgotten by commands, and what is shown of it."""

import json
from typing import Any

from swarm_memory.tools.team.people import hash_of


def test_a_person_is_let_in_changed_revoked_and_forgotten_by_commands(swarm: Any) -> None:
    assert "None." in swarm("team", "people").out
    added = swarm("team", "add", "ada", "--role", "write")
    token = added.out.strip()
    assert token.startswith("swm_")
    assert (token in added.err, "ada may come in as write" in added.err) == (False, True)
    again = swarm("team", "add", "ada")
    assert (again.code, "swarm-memory team" in again.err) == (2, True)
    assert swarm("team", "add", "eve", "--subject", "s-1").code == 2, "no issuer is set"
    issuer = ("--set", "http.oauth_issuer=https://login.example.org")
    signed = json.loads(swarm(*issuer, "team", "add", "eve", "--subject", "s-1", "--json").out)
    assert (signed["person"]["issuer"], signed["token"]) == ("https://login.example.org", None)
    renewed = json.loads(swarm("team", "people", "ada", "--new-token", "--json").out)["token"]
    assert renewed != token
    assert json.loads(swarm("team", "people", "ada", "--role", "review", "--json").out)["role"] == "review"
    assert "revoked_at" in json.loads(swarm("team", "people", "ada", "--revoke", "--json").out)
    people = swarm("team", "people").out
    assert ("revoked at" in people, "https://login.example.org" in people) == (True, True)
    assert swarm("memories", "forget", "--person", "eve", "rm_1").code == 2
    assert swarm("memories", "forget", "--person", "nobody", "--yes").code == 2
    assert "person: eve\nforgotten: 0" in swarm("memories", "forget", "--person", "eve", "--yes").out
    trail = json.loads(swarm("team", "people", "--audit", "--json").out)
    done = [each["action"].removeprefix("person.") for each in trail]
    assert done == ["forgotten", "revoked", "revoked", "role", "token", "added", "added"]
    audit = swarm("team", "people", "--audit").out
    kept = swarm("team", "people", "--json").out
    for secret in (token, renewed, hash_of(token), hash_of(renewed), "eve"):
        assert secret not in audit + kept
