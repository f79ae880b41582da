"""One rollout: what the agent is given, its seed and temperature, what becomes of it, and its form for comparison."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import anyio

from swarm_memory.schema.memory import MemoryDraft, Outcome
from swarm_memory.schema.rollout import MattsRun, Rollout, RolloutRequest, RunnerAnswer
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.tools.credit.outcome import count_steps
from swarm_memory.tools.guard.redact import archivable, redact
from swarm_memory.tools.judge.judge import judge, judge_by_evidence
from swarm_memory.tools.model.ask import load_prompt, render
from swarm_memory.tools.ports.models import AgentRunner
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.excerpt import shorten_trajectory
from swarm_memory.tools.trajectory.reading import read

FORMER_TOKENS = 8_000
"""At most this many tokens of the record of an attempt are put into the prompt of its refinement."""

OVERDUE_S = 5.0
"""Seconds after its time limit at which a runner that has not ended by itself is cancelled."""

TIMED_OUT_CONFIDENCE = 0.7
"""The confidence that a rollout stopped at its time limit has failed, where evidence says nothing."""

LEAST_TEMPERATURE, GREATEST_TEMPERATURE = 0.2, 1.0  # parallel rollouts are spread evenly between both

NOTE = "NOTE:"
_MAX_NOTES, _MAX_NOTE_CHARS, _MAX_ERROR_CHARS = 10, 300, 400

Former: TypeAlias = tuple[Trajectory, Verdict | None]
"""The attempt that a rollout refines, with its verdict."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout prepared for comparison: its steps have ids such as `r2-s4`, which no other rollout's steps have."""

    number: int
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The heading of the attempt in the prompt, with its label."""
        sure = "" if self.verdict.label == "Undecided" else f" ({self.verdict.confidence:.2f})"
        return f"== attempt {self.number}: {self.verdict.label}{sure} =="


class Lesson(NamedTuple):
    """One item that the comparison yielded."""

    draft: MemoryDraft
    outcome: Outcome
    attempt: Attempt
    """The attempt that shows it best."""


def seed_of(run_id: str, number: int) -> int:
    """Return a seed that differs for each rollout and stays the same when the run is resumed after a restart."""
    return int.from_bytes(hashlib.sha256(f"{run_id}:{number}".encode()).digest()[:4]) >> 1


def request_for(run: MattsRun, number: int, settings: Settings, former: Former | None) -> RolloutRequest:
    """Return the request to the runner: the task with the run's notes and, in a refinement, the former attempt."""
    temperature = LEAST_TEMPERATURE
    if run.mode == "parallel" and run.k > 1:
        spread = GREATEST_TEMPERATURE - LEAST_TEMPERATURE
        temperature = round(temperature + spread * (number - 1) / (run.k - 1), 3)
    return RolloutRequest(
        run_id=run.run_id,
        task_id=run.task_id,
        task=run.task,
        prompt=prompt_of(run.task, run.summary.preamble, former),
        number=number,
        mode=run.mode,
        seed=seed_of(run.run_id, number),
        temperature=temperature,
        timeout_s=settings.matts.rollout_timeout_s,
        memory_ids=run.summary.memory_ids,
    )


def prompt_of(task: str, preamble: str, former: Former | None) -> str:
    """Return the prompt that an agent is given."""
    parts = [task, preamble]
    if former is not None:
        trajectory, verdict = former
        reasons, label = (verdict.reasons, verdict.label) if verdict else ((), "not judged")
        judged = "\n".join((f"judged: {label}", *(f"- {one_line(reason, _MAX_NOTE_CHARS)}" for reason in reasons)))
        record = shorten_trajectory(trajectory, FORMER_TOKENS).text
        rendered = render(load_prompt("check_and_correct"), given={}, untrusted={"reasons": judged, "record": record})
        parts += [rendered.system, rendered.user]
    return "\n\n".join(part for part in parts if part)


async def do_rollout(
    toolbox: Toolbox, run: MattsRun, number: int, runner: AgentRunner, former: Former | None
) -> Rollout | None:
    """Have the task done once, judge and save what was done, and return it; None if the run was cancelled meanwhile.

    A runner that does not end within the time limit is cancelled. Raises as `AgentRunner.run`, and `StorageError`.
    """
    request = await asyncio.to_thread(request_for, run, number, toolbox.settings, former)
    began = time.monotonic()
    answer = RunnerAnswer(status="timed_out", error=f"did not end within {request.timeout_s:g} s and left nothing")
    with anyio.move_on_after(request.timeout_s + OVERDUE_S):
        answer = await runner.run(request)
    is_done_now = runner.takes_notes
    rollout = Rollout(
        number=number,
        status=answer.status,
        seed=request.seed if is_done_now else None,
        temperature=request.temperature if is_done_now else None,
        duration_s=round(time.monotonic() - began, 3) if is_done_now else 0.0,
        error=one_line(redact(clean(answer.error)).text, _MAX_ERROR_CHARS) if answer.error else None,
    )
    if answer.trajectory is None:
        is_kept = await toolbox.store.save_rollout(run.scope, run.run_id, rollout, None, None)
        return rollout if is_kept else None
    given = answer.trajectory.model_copy(
        update={"task_id": run.task_id, "task": run.task, "injected_memory_ids": request.memory_ids}
    )
    kept = await asyncio.to_thread(archivable, given, toolbox.settings)
    reading = read(kept)
    verdict = await judge(toolbox, reading, agent_verdict=answer.agent_verdict)
    if answer.status == "timed_out" and verdict.label == "Undecided":
        reasons = (answer.error or "it reached its time limit", *verdict.reasons[:10])
        verdict = Verdict(label="Failure", confidence=TIMED_OUT_CONFIDENCE, reasons=reasons, judge="evidence")
    evidence = await asyncio.to_thread(judge_by_evidence, reading, toolbox.settings)
    # Derived from the run's id, so that a rollout that is saved twice is stored once.
    trajectory_id = f"tr_{run.run_id.partition('_')[2] or run.run_id}-{number}"
    rollout = rollout.model_copy(
        update={
            "trajectory_id": trajectory_id,
            "label": verdict.label,
            "confidence": verdict.confidence,
            "is_hard": evidence.label != "Undecided" and evidence.label == verdict.label,
            "steps": count_steps(kept),
            "notes": notes_of(kept),
        }
    )
    is_kept = await toolbox.store.save_rollout(run.scope, run.run_id, rollout, kept, verdict)
    return rollout if is_kept else None


def notes_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the lines of the agent's own messages that it marked as notes."""
    lines = (
        line.strip(" -*`\t")
        for step in trajectory.steps
        if step.kind == "message" and step.role == "assistant"
        for line in step.text.splitlines()
    )
    notes = (one_line(line[len(NOTE) :], _MAX_NOTE_CHARS) for line in lines if line.startswith(NOTE))
    return tuple(dict.fromkeys(note for note in notes if note))[:_MAX_NOTES]


def best_of(run: MattsRun) -> int | None:
    """Return the number of the best rollout: by label, finishing by itself, then certainty; None when none has a label.

    Of a failure less certainty is better. Among equals: fewer steps or, in sequential scaling, the later refinement.
    """
    judged = [each for each in run.summary.rollouts if each.label is not None]
    ranks = {"Success": 0, "Undecided": 1, "Failure": 2}

    def key(each: Rollout) -> tuple[float, ...]:
        sure = each.confidence if each.label == "Failure" else -each.confidence
        order = (-each.number,) if run.mode == "sequential" else (each.steps, each.number)
        return (ranks[each.label or "Undecided"], each.status != "finished", round(sure, 2), *order)

    return min(judged, key=key).number if judged else None


def numbered_attempt(rollout: Rollout, trajectory: Trajectory, verdict: Verdict) -> Attempt:
    """Return an attempt whose steps and calls carry its number."""
    prefix = f"r{rollout.number}-"

    def named(step: Step) -> Step:
        call_id = prefix + step.call_id if step.call_id else None
        return step.model_copy(update={"id": prefix + step.id, "call_id": call_id})

    return Attempt(
        rollout.number,
        rollout.trajectory_id or "",
        trajectory.model_copy(update={"steps": tuple(map(named, trajectory.steps))}),
        verdict.model_copy(update={"evidence": tuple(prefix + step for step in verdict.evidence)}),
        rollout.notes,
    )


def combined_trajectory(attempts: Sequence[Attempt]) -> Trajectory:
    """Return one trajectory with the steps of all attempts, any of which an item may name as its evidence."""
    steps = tuple(step for attempt in attempts for step in attempt.trajectory.steps)
    return attempts[0].trajectory.model_copy(update={"steps": steps})
