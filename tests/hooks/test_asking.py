"""What the end of a turn does where somebody may be asked about finished tasks."""

from datetime import UTC, datetime

import pytest
from hook_project import HookProject


def answer(project: HookProject, way: str) -> None:
    """Give the user's answer to who learns."""
    file = project.home / ".config" / "swarm-memory" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"chat: {{learn_with: {way}}}\n")


@pytest.mark.parametrize(("way", "waits_s"), [("rules", 20), ("claude", 600)])
def test_a_task_that_a_model_is_asked_about_is_waited_for_until_it_is_hardly_gone_on_with(
    shop: HookProject, way: str, waits_s: int
) -> None:
    answer(shop, way)
    shop.prompt()
    assert shop.hook("stop").stdout == ""
    ((due, queued),) = shop.rows("SELECT run_after, created_at FROM jobs WHERE kind = 'learn'")
    waited = datetime.fromisoformat(due).astimezone(UTC) - datetime.fromisoformat(queued).astimezone(UTC)
    assert waited.total_seconds() == pytest.approx(waits_s, abs=1)
