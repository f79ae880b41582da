"""What the rules on words alone say about two instructions."""

import random

import pytest

from swarm_memory.tools.text.opposition import LIGHT, NEGATED, TURNED, opposition
from swarm_memory.tools.text.tokens import tokenize
from tests.consolidate.instructions import OTHER_MATTERS, THINGS, VERBS

OPPOSITES = (
    ("Always run the migrations before the deploy", "Never run the migrations before the deploy"),
    ("Do not retry a POST request after a timeout", "Retry a POST request after a timeout"),
    ("Use mocks in the integration tests", "Avoid mocks in the integration tests"),
    ("Pin the versions of all dependencies", "Don't pin the versions of dependencies"),
    ("Commit the lock file to the repository.", "The lock file should not be committed to the repository."),
    ("Store the session token in local storage", "Do not store session tokens in local storage."),
    ("Enable the query cache in production", "Disable the query cache in production"),
    ("Run the linter before you commit", "Run the linter after you commit"),
    ("Increase the timeout of the client", "Decrease the timeout of the client"),
    ("Turn on strict mode of the compiler", "Turn off strict mode of the compiler"),
    ("Use npm ci and not npm install in CI", "Use npm install and not npm ci in CI"),
    ("Mock the clock, not the scheduler", "Mock the scheduler, not the clock"),
    ("Search for all callers of the function", "Do not search for all callers of the function"),
    ("Make the folder of the file first", "Do not make the folder of the file"),
    ("Load the images lazily in the gallery", "Load the images eagerly in the gallery"),
)
AGREEMENTS = (
    ("Never skip the tests before a release", "Always run the tests before a release"),
    ("Never disable the query cache in production", "Enable the query cache in production"),
    ("Check the exit code of the command", "Never ignore the exit code of the command"),
    ("Never commit secrets to the repository", "Do not commit secrets to the repository"),
    ("Use a mutex rather than a spin lock", "Use a mutex"),
    ("Use a mutex, not a spin lock", "Do not use a spin lock but a mutex"),
    ("Use npm ci and not npm install in CI", "Install in CI with npm ci, not with npm install"),
)

SAYING_NOTHING = (
    "always never not use using make making ensure sure do please try consider need want should must be able "
    "avoid skip refrain better best good practice remember take care perform executing run running again"
)


def test_words_that_say_that_something_is_to_be_done_are_kept_as_their_stems() -> None:
    assert frozenset(tokenize(SAYING_NOTHING)) == LIGHT


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_opposite_instructions_are_seen_from_both_sides(one: str, other: str) -> None:
    assert opposition(one, other) == opposition(other, one) >= 0.6
    assert opposition(one, other) in (pytest.approx(NEGATED), pytest.approx(TURNED))


@pytest.mark.parametrize(("one", "other"), AGREEMENTS)
def test_a_double_negation_is_an_agreement(one: str, other: str) -> None:
    assert opposition(one, other) < 0.6


@pytest.mark.parametrize(("one", "other"), OTHER_MATTERS)
def test_other_objects_conditions_and_exceptions_are_no_contradiction(one: str, other: str) -> None:
    assert opposition(one, other) < 0.6


def test_an_opposite_step_is_found_in_the_midst_of_others() -> None:
    one = "Release safely\n1. Read the change log.\n2. Run the smoke tests on the staging server.\n3. Tag it."
    other = "Release fast\n1. Do not run the smoke tests on the staging server.\n2. Push the tag."
    assert opposition(one, other) >= 0.6


def test_functions_that_return_opposites_say_nothing_against_each_other() -> None:
    one = "def is_even(number):\n    if number % 2:\n        return False\n    return True"
    other = "def any_odd(numbers):\n\tfor each in numbers:\n\t\tif each % 2: return True\n\treturn False"
    assert opposition(one, other) == 0.0
    assert opposition("Ask first:\n```\nenable cache\n```", "Ask first:\n```\ndisable cache\n```") == 0.0
    assert opposition("1. Ship.\n    - Run the tests first", "1. Tag.\n    - Never run the tests first") >= 0.6


def test_what_the_rules_do_not_reach_is_left_unsaid() -> None:
    assert opposition("Deploy on Fridays", "Fridays are a bad day for a release") == 0.0
    assert opposition("Set the limit to 10 connections", "Set the limit to 100 connections") == 0.0


OPENINGS = ("Always", "Never", "Do not", "Avoid to", "", "Remember to", "Please", "Must not")
TURNS = ("enabled", "disabled", "before the", "after the", "without a", "with a", "first", "last")


def _unrelated(draw: random.Random) -> tuple[str, str]:
    """Two memories that share no object; of negations and antonyms they are full."""
    things = draw.sample(THINGS, 16)

    def text(own: list[str]) -> str:
        steps = [
            " ".join([draw.choice(OPENINGS), draw.choice(VERBS), draw.choice(TURNS), *draw.sample(own, 3)])
            for _ in range(4)
        ]
        return "\n".join(steps)

    return text(things[:8]), text(things[8:])


def test_none_of_2_000_random_unrelated_pairs_is_called_a_contradiction() -> None:
    draw = random.Random(1)
    assert sum(opposition(*_unrelated(draw)) > 0 for _ in range(2_000)) == 0
