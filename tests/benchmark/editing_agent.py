"""An agent for tests: it reads its prompt, edits the files of its folder, and says what it did as a ReAct text.

It writes the solution of the scenario that the prompt asks for, or a spoilt one, depending on the seed of its rollout;
the checker decides whether that meets the task.
"""

import os
import shutil
import sys
from pathlib import Path

SOLUTIONS = Path(__file__).with_name("solutions")
FILES = {"payments.py": "payment_api", "migrate.py`": "schema_migration"}


def main() -> None:
    """Do the task once."""
    prompt = sys.stdin.read()
    name = next(scenario for file, scenario in FILES.items() if file in prompt)
    for file in (SOLUTIONS / name).glob("*.py"):
        shutil.copy(file, file.name)
        if int(os.environ["MATTS_SEED"]) % 2:
            Path(file.name).write_text("raise SystemExit(1)\n", encoding="utf-8")
    sys.stdout.write(f"Thought: I write the file.\nAction: Write[{name}]\nObservation: written\nFinal Answer: done\n")


if __name__ == "__main__":
    main()
