"""Secrets that are given to a name: `password: …`, `API_KEY=…`, "the token is …"."""

import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from swarm_memory.tools.guard.rules import SECRETS, Rule, Span, any_in, compiled, table
from swarm_memory.tools.guard.values import is_call, is_key, is_password, is_phrase, is_random, is_said_password
from swarm_memory.tools.text.cleaning import lazy

_OF_A_NAME = string.ascii_letters + string.digits + "_.$@-"
_AFTER = lazy(r"[\w-]{0,40}(?:\.[A-Za-z_][\w-]{0,40})?")
_WORD_OF_NAME = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME_AND_SIGN = lazy(r"([\w.-]{1,60})\\?[\"'`]?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"'`]?$")
_GIVEN = lazy(
    r"""(?P<closed>\\?["'`])?[\])]{0,2}(?:\[\])?(?:(?P<tag>>)\s{0,40}
    |["' \t,]{0,3}\s{0,40}["']?value["']?[ \t]{0,3}[:=][ \t]{0,3}
    |(?:[ \t]{0,3}:[ \t]?[A-Za-z][\w.\[\]|?]{0,30}(?=[ \t]{0,3}=)|[ \t]{1,3}\*?(?:string|str)(?=[ \t]{0,3}=))?
     [ \t]{0,20}(?P<sign>:{1,3}=|[?+.|!]{0,2}={1,3}>?|->|:)
    |[ \t]{0,3}(?P<weak>[,(])|(?P<apart>[ \t]{1,20}-{1,6}(?=[ \t])|[ \t]{0,3}:?\r?\n(?=[\w+/=.-]{20,200}(?:\s|$))
     |[ \t](?:for|of|in)[ \t][^\n:=]{1,40}?(?<!\s):)
    |(?P<said>(?:[ \t](?:for|of|in)[ \t][^\n:=]{1,40}?)?[ \t]{1,8}(?:is|was|to|has[ ]been)[ \t]{1,3}(?:now[ \t]{1,3})?
     (?:(?:re)?set[ \t]to[ \t]|changed[ \t]to[ \t])?)
    |(?P<space>[ \t]{1,8}))
    [ \t]{0,20}(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}|[@(\[{][ \t]?(?=\\?["'`]))?
    (?:[rbfuL]{0,2}(?P<quote>\\?["'`]))?""",
    re.VERBOSE,
)
"""How a value is given to a name: behind a sign, in a tag, as the field `value`, or as the next word of a sentence."""
_BARE = lazy(r"[^\s\"'`,;&<>|(){}\[\]\\]{4,4000}")
_SAID = lazy(r"(?:[^\s\"'`,;&<>|(){}\[\]\\]|[,;&|](?=\w)){4,4000}")
_WIDE = lazy(r"[^\s\"'`]{8,200}")
_QUOTED = {quote: lazy(rf"[^\n{quote}]{{4,4000}}") for quote in "\"'`"}
_NAME_ONLY = lazy(r"[ \t]{0,8}(?:export |set |env )?[\w.-]{0,60}$")
_LONG_VALUE = 100


class _Name(NamedTuple):
    """A name that holds a word for a secret, as far as it reaches."""

    before: str
    """What is in it before that word."""
    word: str
    after: str
    start: int
    """Of the word."""
    end: int
    is_parameter: bool
    """Whether it is in the query of an address: `?key=`, `&userpass=`."""
    is_for_password: bool


def find_assigned(text: str, lower: str) -> Iterator[Span]:
    """Yield the values that are given to names such as `password`, `api_key`, `client_secret`."""
    for rule in table(SECRETS).sections["names"]:
        if rule.hints and not any_in(lower, rule.hints):
            continue
        position = 0
        for match in compiled(rule).finditer(lower):
            name = _name_at(text, match, rule) if match.start() >= position else None
            if name is None or not (_is_secrets(name) or _may_be_secrets(name)):
                continue
            given = _GIVEN.match(text, name.end)
            if given is None:
                continue
            start, end = _value_after(text, given)
            # A long value is looked at once, whatever names are in it: the search stays linear.
            position = end if end - start > _LONG_VALUE else position
            if _is_given(text, name, given, (start, end)):
                yield Span(start, end, f"[secret:{'password' if name.is_for_password else 'assigned'}]", rule.name)


def is_shown_to_all(text: str, start: int) -> bool:
    """Whether a name before a value says that it is no secret: an id, a hash, something public."""
    named = _NAME_AND_SIGN.search(text[max(0, start - 80) : start])
    return named is not None and _is_of_another_thing(_words(named[1]), _words(named[1]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD_OF_NAME.findall(name)]


def _is_of_another_thing(before: list[str], after: list[str]) -> bool:
    """Whether a name is not the secret's own, `token_url`, or of what is shown to everybody, `public_key`."""
    words = table(SECRETS).words
    return bool(after and after[-1] in words["attributes"]) or not words["public_kinds"].isdisjoint(before)


def _name_at(text: str, match: re.Match[str], rule: Rule) -> _Name | None:
    """Return the whole of the name; None where the word is the beginning of another one, as in `tokenizer`."""
    before = text[max(0, match.start() - 60) : match.start()]
    stem = before[len(before.rstrip(_OF_A_NAME)) :]
    if match[0] == "key" and before.endswith(" "):
        word = before[:-1]
        stem = word[len(word.rstrip(string.ascii_letters)) :] + " "
    after = _AFTER.match(text, match.end())
    tail = after[0].rstrip("-.") if after else ""
    end = match.end() + len(tail)
    if tail[:1] in ("s", "S") and not tail[1:2].isalpha():
        tail = tail[1:]
    last = text[match.end() - 1]
    goes_on = tail[:1].islower() if last.islower() else tail[:1].isalpha() and last.isascii()
    first = match.start() - len(stem)
    is_parameter = first > 0 and text[first - 1] in "?&"
    is_for_password = rule.section == "names.password"
    return None if goes_on else _Name(stem, match[0], tail, match.start(), end, is_parameter, is_for_password)


def _is_secrets(name: _Name) -> bool:
    """Whether a name is of a secret, whatever its value looks like."""
    before = _words(name.before)
    if _is_of_another_thing(before, _words(name.after)) or name.word == "api":
        return False
    if name.is_for_password:
        return len(name.word) > 4 or not name.before[-1:].isalpha() or name.is_parameter
    if name.word == "key":
        kinds = tuple(table(SECRETS).words["kinds_of_key"])
        return (before[-1].endswith(kinds) or name.before.isupper()) if before else name.is_parameter
    return name.word not in ("auth", "sig", "pat", "signature") or not name.before[-1:].islower()


def _may_be_secrets(name: _Name) -> bool:
    """Whether a name may be of a secret, if its value looks like one: `my_key`, `my_api`."""
    before, after = _words(name.before), _words(name.after)
    if not before or _is_of_another_thing(before, after):
        return False
    return (name.word == "key" and not name.before.endswith(" ")) or (name.word == "api" and not after)


def _value_after(text: str, given: re.Match[str]) -> tuple[int, int]:
    """Return where the value starts and ends."""
    start = given.end()
    quote = given["quote"]
    if quote:
        value = _QUOTED[quote[-1]].match(text, start)
        end = value.end() if value else start
        if value and text[end : end + 1] == quote[-1]:
            return start, end - (1 if quote[0] == "\\" and text[end - 1] == "\\" else 0)
    value = (_SAID if given["said"] else _BARE).match(text, start)
    if value is None:
        wide = None if given["tag"] else _WIDE.match(text, start)
        is_value = wide is not None and not is_call(wide[0]) and is_random(wide[0])
        return (start, wide.end()) if wide and is_value else (start, start)
    return start, start + len(value[0].rstrip(".:"))


def _is_given(text: str, name: _Name, given: re.Match[str], value: tuple[int, int]) -> bool:
    """Whether a value of a name is a secret, by how it is given to it and by what it looks like."""
    shown, end, is_sure = text[value[0] : value[1]], value[1], _is_secrets(name)
    is_quoted, is_flag = given["quote"] is not None, name.before.startswith("--")
    if (given["space"] is not None and not is_flag) or given["apart"] or given["said"]:
        return not (name.after or given["closed"]) and is_sure and _is_in_sentence(name, given, shown)
    is_weak = given["weak"] is not None
    if given["weak"] == "," and not given["closed"]:
        return is_sure and not (name.is_for_password or name.after) and is_key(shown, sure=True, loud=False)
    if is_weak and (name.after or name.word == "pass"):
        return False
    if not is_quoted and (text[end : end + 1] in ("(", "[") or is_call(shown)):
        return False
    loud = not is_weak and (is_quoted or is_flag or _is_loud(text, name, given, end))
    if not name.is_for_password:
        return is_key(shown, sure=is_sure, loud=loud)
    if " " in shown or "\t" in shown:
        # Not a text on it, as `passwordHelp`, nor a pass over something.
        may_be = not _words(name.after) and (len(name.word) > 4 or name.before.isupper())
        return not is_weak and may_be and is_phrase(shown, sure=name.word == "passphrase")
    return is_password(shown, loud=loud and given["tag"] is None)


def _is_in_sentence(name: _Name, given: re.Match[str], shown: str) -> bool:
    """Whether the word that follows in a sentence is a secret."""
    if not name.is_for_password:
        return len(shown) >= 12 and is_key(shown, sure=True, loud=False)
    if given["quote"] is not None and given["said"] is not None:
        return is_password(shown, loud=True)
    return is_said_password(shown.rstrip("!?)"), of_three_kinds=name.word in ("pass", "pw", "pwd"))


def _is_loud(text: str, name: _Name, given: re.Match[str], end: int) -> bool:
    """Whether an assignment outside quotes gives a value, not a variable: `PASSWORD=x`, `?password=x`, a line."""
    if name.is_parameter or (text[name.start : name.start + 4].isupper() and name.before.upper() == name.before):
        return True
    line_start = text.rfind("\n", max(0, name.start - 80), name.start) + 1
    before = text[line_start : name.start] if line_start or name.start < 80 else "("
    is_alone = text[end : end + 2].strip(" \r")[:1] in ("", "\n")
    is_attribute = name.after or name.before.startswith(("self.", "this."))
    return "=" in (given["sign"] or "") and is_alone and not is_attribute and _NAME_ONLY.match(before) is not None
