"""Makes commands from functions: options and arguments come from the annotations, the help from the docstring."""

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Union, Unpack, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from swarm_memory.server.cli.console import print_answer, print_json
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Only, Operation, Positional

Yes: TypeAlias = Annotated[bool, "Do not ask for confirmation."]
BOUNDS = ("ge", "le", "min_length", "max_length")
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs.")


def command(
    *,
    of: click.Group | None = None,
    name: str | None = None,
    show: Callable[[Any], object] | None = None,
    json: Callable[[Any], object] = lambda result: result,
    failed: Callable[[Any], bool] = lambda _: False,
    epilog: str | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command from a function, in the group `of` where one is given.

    Its first parameter is the `Invocation`; the bank that a coroutine function opens is closed at its end. With `show`
    the result is printed: by `show` for people, with `--json` as `json` returns it. If it has `failed`, exit with 1.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        _, *given = inspect.signature(function).parameters.values()

        def callback(**values: Any) -> None:
            invocation: Invocation = click.get_current_context().obj
            as_json = values.pop("as_json", False) if show else False
            if inspect.iscoroutinefunction(function):
                result = invocation.call(lambda site: function(site, **values))
            else:
                result = function(invocation, **values)
            if show is not None:
                print_json(json(result)) if as_json else show(result)
            if failed(result):
                raise click.exceptions.Exit(1)

        params = [*map(_parameter, given), *([JSON] if show else ())]
        called = name or function.__name__.strip("_").replace("_", "-")
        made = click.Command(called, callback=callback, params=params, help=inspect.getdoc(function), epilog=epilog)
        if of is not None:
            of.add_command(made)
        return made

    return decorate


class Options(TypedDict, total=False):
    """Arguments of `command` that `command_of` takes too."""

    of: click.Group
    show: Callable[[Any], object]
    json: Callable[[Any], object]
    failed: Callable[[Any], bool]


def command_of(
    operation: Operation,
    name: str,
    *,
    fixed: Mapping[str, object] = {},
    takes: Sequence[str] | None = None,
    help: str | None = None,
    examples: Sequence[str] = (),
    **options: Unpack[Options],
) -> click.Command:
    """Make a command from an operation that is also a tool; the answer is printed by its fields unless `show` is given.

    `fixed` are arguments that the command always passes, and `takes` those that the user can give, by default all.
    """

    async def run(site: Invocation, **values: Any) -> Any:
        return await operation.run(site, **values, **fixed)

    signature = inspect.signature(operation.run)
    first, *others = signature.parameters.values()
    kept = [
        each
        for each in others
        if each.name not in fixed
        and (takes is None or each.name in takes)
        and Only.AGENT not in _unwrapped(each.annotation)
    ]
    shown = "\n".join(f"  swarm-memory {line}" for line in examples)
    text = inspect.cleandoc(help or operation.run.__doc__ or "")
    run.__doc__ = f"{text}\n\n\b\nExamples:\n{shown}" if examples else text
    run.__dict__["__signature__"] = signature.replace(parameters=[first, *kept])
    options.setdefault("show", print_answer)
    return command(name=name, **options)(run)


def _parameter(given: inspect.Parameter) -> click.Parameter:
    """Return the option or argument for a parameter of a function."""
    if given.name == "as_json":
        return JSON
    annotation, *marks = _unwrapped(given.annotation)
    word = next((mark for mark in marks if isinstance(mark, Positional)), Positional())
    is_list, is_required = get_origin(annotation) in (list, tuple), given.default is given.empty
    attributes: dict[str, Any] = {"type": word.type or _type(get_args(annotation)[0] if is_list else annotation, marks)}
    if not is_list and not is_required:  # None as a default would count as a given value
        attributes["default"] = given.default
    if metavar := word.metavar:
        is_rest = metavar.endswith("...")
        attributes["required"] = not metavar.startswith("[") if is_list or is_rest else is_required
        attributes["callback"] = _joined if is_rest and not is_list else None
        return click.Argument([given.name], nargs=-1 if is_list or is_rest else 1, metavar=metavar, **attributes)
    texts = [mark for mark in marks if isinstance(mark, str)]
    texts += [mark.description for mark in marks if isinstance(mark, FieldInfo) and mark.description]
    flags = [text for text in texts if text.startswith("-")] or ["--" + given.name.replace("_", "-")]
    names = [flag.partition(" ")[0] for flag in flags]
    help = next((text for text in texts if not text.startswith("-")), None)
    if annotation is bool:
        return click.Option([*names, given.name], is_flag=True, default=given.default, help=help)
    return click.Option(
        [*names, given.name],
        multiple=is_list,
        required=is_required,
        metavar=flags[-1].partition(" ")[2] or None,
        show_default=not (is_list or is_required) and given.default not in (None, ""),
        help=help,
        callback=_none_for_nothing if is_list and given.default is None else None,
        **attributes,
    )


def _joined(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> str:
    """Return the rest of the line as one text; for `-` read standard input."""
    return parameter.type(sys.stdin.read() if tuple(value) == ("-",) else " ".join(value), parameter, context)


def _none_for_nothing(context: click.Context, parameter: click.Parameter, value: Sequence[Any]) -> list[Any] | None:
    return list(value) or None


def _unwrapped(annotation: Any) -> Iterator[Any]:
    """Yield the type of an annotation, without None, and then the marks attached to it."""
    marks: list[Any] = []
    while True:
        parts = get_args(annotation)
        if get_origin(annotation) is Annotated:
            annotation, *more = parts
            marks += [each for mark in more for each in (mark, *(mark.metadata if isinstance(mark, FieldInfo) else ()))]
        elif get_origin(annotation) in (Union, types.UnionType) and type(None) in parts:
            annotation = next(each for each in parts if each is not type(None))
        else:
            break
    yield annotation
    yield from marks


def _type(annotation: Any, marks: Sequence[object]) -> Any:
    """Return click's type for an annotation, with the bounds that its marks set; a path must be that of a file."""
    bounds = {name: getattr(mark, name) for mark in marks for name in BOUNDS if hasattr(mark, name)}
    if annotation is str and "max_length" in bounds:
        return _text(bounds.get("min_length", 0), bounds["max_length"])
    if get_origin(annotation) is Literal:
        return click.Choice([str(each) for each in get_args(annotation)], case_sensitive=False)
    if annotation in (int, float) and bounds:
        return (click.IntRange if annotation is int else click.FloatRange)(bounds.get("ge"), bounds.get("le"))
    return click.Path(dir_okay=False, path_type=Path) if annotation is Path else annotation


def _text(least: int, most: int) -> Callable[[str], str]:
    def text(given: str) -> str:  # the help shows its name
        if not least <= len(given) <= most:
            raise click.BadParameter(f"it has {len(given):,} characters; {least} to {most:,} are allowed")
        return given

    return text
