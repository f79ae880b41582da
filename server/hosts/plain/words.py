"""The words of agents that act in plain text, and of the harnesses that answer them: data, one entry for each."""

from collections.abc import Mapping

SHELL = "bash"
"""What a command in a fence is a call of."""

FENCES: Mapping[str, str] = {
    **dict.fromkeys(
        ("", "bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "mswea_bash_command"), SHELL
    ),
    **dict.fromkeys(("python", "py", "python3", "ipython"), "python"),
    "sql": "sql",
    "powershell": "powershell",
}
"""The language of a fence that holds an action, and the tool that runs it."""

TAGS: Mapping[str, str] = {
    **dict.fromkeys(("bash", "execute_bash", "shell", "run_bash", "mswea_bash_command", "cmd", "command"), SHELL),
    **dict.fromkeys(("execute_ipython", "ipython", "python", "execute"), "python"),
}
"""The tags around an action, and the tool that runs it."""

THOUGHTS = ("thought", "thoughts", "reasoning", "analysis", "explanation", "plan")
"""Where an agent that writes JSON says what it thinks."""

NESTED_TAGS = frozenset(
    {"execute_command", "read_file", "write_to_file", "replace_in_file", "apply_diff", "search_files", "list_files",
     "list_code_definition_names", "browser_action", "use_mcp_tool", "access_mcp_resource", "attempt_completion"}
)  # fmt: skip
"""Tools that are called by a tag of their name, with a tag for each argument in it."""

ARGUMENT: Mapping[str, str] = {SHELL: "command", "powershell": "command", "python": "code", "sql": "query"}
"""The name of the one argument of a tool."""

RUNNERS = frozenset(
    {"execute", "exec", "bash", "shell", "sh", "terminal", "run", "run_command", "run_shell", "run_shell_command",
     "execute_bash", "execute_command", "execute_shell", "command", "cmd"}
)  # fmt: skip
"""Tools of ReAct agents whose argument is a command."""

ENDS = frozenset({"submit", "exit", "quit", "finish", "exit_forfeit", "task_complete"})
"""Commands that end the task and are no programs."""

END_MARKS = frozenset(
    {"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT", "MICRO_SWE_AGENT_FINAL_OUTPUT"}
)
"""What a command prints as its first line to end the task."""

SAYS: Mapping[str, str] = {
    **dict.fromkeys(("thought", "think", "thinking", "discussion"), "thought"),
    **dict.fromkeys(("action", "act", "command"), "action"),
    "action input": "input",
    "observation": "observation",
    **dict.fromkeys(("final answer", "answer"), "answer"),
}
"""The labels at the beginning of a line, and what stands behind them."""

MANY_TOOLS = frozenset({"str_replace_editor", "str_replace_based_edit_tool", "file_editor"})
"""Tools whose argument `command` says which of several things they do."""

EDITOR_COMMANDS: Mapping[str, str] = {
    "view": "view", "create": "create", "str_replace": "edit", "insert": "insert", "undo_edit": "undo_edit",
}  # fmt: skip
"""What these tools do, and the name of a call that does that alone."""

EDITOR_ARGUMENTS: Mapping[str, str] = {
    "path": "file_path", "old_str": "old_string", "new_str": "new_string", "file_text": "content",
}  # fmt: skip

TIMED_OUT = (
    r"the last command <command>", r"(?:execution|command) timed out", r"the command timed out",
    r"<error>[^\n]{0,200}timed out",
)  # fmt: skip
"""How an answer begins where a command was stopped."""

ANSWER_LEADS = (
    r"observation(?: \d{1,4})?", r"execution result of \[[^\]\n]{1,100}\]", "new terminal output",
    "current terminal (?:screen|state)",
    r"previous response had (?:warnings|parsing errors):[^:]{0,1000}\n(?:new terminal output|current terminal screen)",
 "the output of the os", "(?:command |tool |terminal |execution |code )?output",
    r"\[[\w-]{1,60}(?: for '[^\n]{0,300}')?\] result", "tool result",
)  # fmt: skip
"""How an answer begins, before a colon."""

STATE_LINES = (
    r"\((?:open file|current directory): [^\n]{0,500}\)", r"bash-\$",
    r"\[current working directory: [^\n]{0,500}\]", r"\[python interpreter: [^\n]{0,500}\]",
    r"[\w.-]{1,40}@[\w.-]{1,60}:[^\n$#]{0,200}[$#]",
)  # fmt: skip
"""What a harness says of the state of its shell, in the last lines of an answer."""

EXIT_LINE = (
    r"[\[(<]?(?:(?:the )?(?:command|process)(?: -?\d{1,9})? )?(?:(?:completed|finished|exited|failed|ended) )?"
    r"(?:with )?(?:(?:exit|return)[ _-]?(?:code|status)|(?<=exited with )code)[ \t]{0,3}[:=]?[ \t]{0,3}"
    r"(?P<code>-?\d{1,10})(?: \([a-z ]{1,40}\))?[.)\]>]{0,3}"
)
"""A whole line that tells the exit code."""

APPLIED = (
    r"applied (?:edit|patch|changes|diff) to (\S{1,500})",
    r"(?:successfully )?(?:updated|edited|wrote|created|patched|modified)(?: file)?:? (\S{1,500})",
    r"file (?:updated|created successfully)\b", r"the file (\S{1,500}) has been (?:edited|created|updated)",
    r"text replaced\b", r"success\. updated the following files",
)  # fmt: skip
"""Lines that say an edit was made."""

REFUSED = (
    r"[^\n]{0,200}\bfailed to (?:exactly )?match(?: lines in (\S{1,500}))?", r"[^\n]{0,200}\bno exact match",
    r"[^\n]{0,200}\bpatch (?:does not apply|failed)", r"[^\n]{0,200}\bhunk\b[^\n]{0,100}\bfailed",
    r"[^\n]{0,200}\bdid not (?:conform to the edit format|appear verbatim)", r"your proposed edit has introduced",
    r"your changes have not been applied", r"no replacement was performed", r"[^\n]{0,60}failed to apply",
    r"text not found", r"(?:usage|error): edit\b",
)  # fmt: skip
"""Lines that say an edit was not made."""

RUN_HEADS = (
    r"test script: (?P<script>[^\n]{1,2000}?);?", r"#{0,3} ?running: (?P<failed>[^\n]{1,2000})",
    r"i ran (?:this command|the tests?)(?: with)?:\s{0,80}\n\s{0,80}`{0,3}(?P<told>[^\n`]{1,2000})`{0,3}",
)  # fmt: skip
"""Lines by which a harness tells of a command that it ran itself; `failed`: it tells only of what failed."""

RUN_TIMED_OUT = r"[^\n]{0,200}\b(?:run|tests?|command) timed out\b[^\n]{0,200}"

REMINDERS = (
    r"(?:please )?(?:always )?provide exactly one (?:action|command)",
    r"please always provide (?:exactly one |a |an )?(?:action|command|tool ?call|code block)",
    r"format error", r"your (?:last )?(?:output|response|message|command) (?:was|could|did) not (?:be )?"
    r"(?:formatted|parsed|executed|valid|recognized|conform|contain|include)",
    r"please continue working on the task on whatever approach",
    r"no (?:valid )?(?:actions?|commands?|tool ?calls?|code blocks?) (?:was |were )?(?:found|detected) in",
    r"\[error\] you did not use a tool", r"expected exactly one (?:action|command|tool|code)", r"found \d{1,4} actions",
    r"\(?(?:the )?(?:harness|environment) (?:starts|started|begins) ", r"(?:starting |new |next ){1,2}attempt \d",
    r"environment reminder:", r"you must (?:use|call|provide) (?:a|one|exactly one) (?:tool|function|command|action)\b",
)  # fmt: skip
"""What harnesses, not users, say in the user's name when nothing could be run, or when they begin again."""

TASK_FRAMES: tuple[tuple[str, str], ...] = (
    ("<pr_description>", "</pr_description>"),
    ("<issue_description>", "</issue_description>"),
    ("<problem_statement>", "</problem_statement>"),
    ("<issue>", "</issue>"),
    ("<task>", "</task>"),
    ("--------------------- NEW TASK DESCRIPTION ---------------------",
     "--------------------- END OF NEW TASK DESCRIPTION ---------------------"),
    ("\nISSUE:\n", "\nINSTRUCTIONS:\n"),
    ("\nTask Description:\n", "\nCurrent terminal state:\n"),
)  # fmt: skip
"""What stands around the task where the first message is a template."""

TASK_LEADS = ("consider the following pr description:",)
"""First lines within a frame that are the template's."""

EVENT_TALK: Mapping[str, str] = {"message": "", "system": "system", "recall": "system", "change_agent_state": "system"}
"""Actions of event records that only say something, and who says it; empty: who the record names as its source."""
