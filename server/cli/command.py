"""Makes commands of functions: options and arguments come from the annotations, the help from the docstring."""

import inspect
import types
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import annotated_types
import anyio
import click
from pydantic.fields import FieldInfo

from swarm_memory.server.cli.console import print_json, print_row
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Flag, Operation, Word

T = TypeVar("T")

JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs.")
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
A_FILE = click.Path(dir_okay=False, path_type=Path)


def command(
    *,
    of: click.Group | None = None,
    name: str | None = None,
    show: Callable[[Any], object] | None = None,
    json: Callable[[Any], object] = lambda result: result,
    failed: Callable[[Any], bool] = lambda _: False,
    reads: bool = False,
    epilog: str | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of a function, in the group `of` where one is given.

    Its first parameter is `invocation`, or `toolbox` of the bank that is then opened: only for reading with `reads`.
    With `show` the result is printed: by that for people, with `--json` as `json` gives it. Keyword-only parameters of
    `show` are options too. Where the result has `failed` the command ends with code 1.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        given, shown = _parameters(function), _parameters(show, keyword_only=True) if show else {}
        on_bank = next(iter(inspect.signature(function).parameters)) == "toolbox"

        def callback(**values: Any) -> None:
            invocation: Invocation = click.get_current_context().obj
            as_json = values.pop("as_json", False) if show else False
            styles = {name: values.pop(name) for name in shown}
            if on_bank:
                open_bank = invocation.read if reads else invocation.run
                result = open_bank(lambda toolbox: function(toolbox, **values))
            else:
                result = function(invocation, **values)
            if show is not None:
                print_json(json(result)) if as_json else cast(Callable[..., object], show)(result, **styles)
            if failed(result):
                raise click.exceptions.Exit(1)

        params = [*(given | shown).values(), *([JSON] if show else ())]
        called = name or function.__name__.strip("_").replace("_", "-")
        made = click.Command(called, callback=callback, params=params, help=inspect.getdoc(function), epilog=epilog)
        if of is not None:
            of.add_command(made)
        return made

    return decorate


def command_of(
    operation: Operation[T],
    name: str,
    *,
    of: click.Group | None = None,
    show: Callable[[Any], object] | None = None,
    json: Callable[[Any], object] = lambda result: result,
    examples: Sequence[str] = (),
) -> click.Command:
    """Make a command of an operation that the server has as a tool; without `show` its answer is printed by fields."""

    def run(invocation: Invocation, **values: Any) -> T:
        return anyio.run(_called, invocation, operation.run, values)

    shown = "\n".join(f"  swarm-memory {line}" for line in examples)
    run.__doc__ = f"{inspect.getdoc(operation.run)}\n\n\b\nExamples:\n{shown}" if examples else operation.run.__doc__
    run.__dict__["__signature__"] = inspect.signature(operation.run)
    return command(of=of, name=name, show=show or (lambda result: print_row(operation.answer(result))), json=json)(run)


async def _called(invocation: Invocation, run: Callable[..., Awaitable[T]], values: dict[str, Any]) -> T:
    async with invocation.site() as site:
        return await run(site, **values)


def _parameters(function: Callable[..., Any], *, keyword_only: bool = False) -> dict[str, click.Parameter]:
    """Return the parameters of a command by those of a function, without its first."""
    _, *given = inspect.signature(function).parameters.values()
    return {each.name: _parameter(each) for each in given if not keyword_only or each.kind is each.KEYWORD_ONLY}


def _parameter(given: inspect.Parameter) -> click.Parameter:
    if given.name == "as_json":
        return JSON
    annotation, *marks = _unwrapped(given.annotation)
    word = next((mark for mark in marks if isinstance(mark, Word)), None)
    flag = next((mark for mark in marks if isinstance(mark, Flag)), Flag())
    is_list, is_required = get_origin(annotation) in (list, tuple), given.default is given.empty
    kind = (word or flag).type or _type(get_args(annotation)[0] if is_list else annotation, marks)
    default = None if is_list or is_required else given.default
    defaults: dict[str, Any] = (
        {} if is_list or is_required else {"default": default}
    )  # None would stand for what must be given
    if word is not None:
        must = not (word.metavar or "").startswith("[") if is_list else is_required
        number = -1 if is_list else 1
        return click.Argument([given.name], type=kind, nargs=number, required=must, metavar=word.metavar, **defaults)
    texts = [mark for mark in marks if isinstance(mark, str)]
    names = [text for text in texts if text.startswith("-")] or ["--" + given.name.replace("_", "-")]
    described = (mark.description for mark in marks if isinstance(mark, FieldInfo) and mark.description)
    described_as = next((text for text in texts if not text.startswith("-")), next(described, None))
    if annotation is bool:
        return click.Option([*names, given.name], is_flag=True, default=given.default, help=described_as)
    return click.Option(
        [*names, given.name],
        type=kind,
        multiple=is_list,
        required=is_required,
        **defaults,
        show_default=default not in (None, ""),
        metavar=flag.metavar,
        help=described_as,
        callback=_none_for_nothing if is_list and given.default is None else None,
    )


def _none_for_nothing(context: click.Context, parameter: click.Parameter, value: Sequence[Any]) -> list[Any] | None:
    return list(value) or None


def _unwrapped(annotation: Any) -> Iterator[Any]:
    """Yield the type that an annotation comes to, without None, and then the marks that stand beside it."""
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
    """Return click's type for an annotation, within the bounds that its marks give."""
    if get_origin(annotation) is Literal:
        return click.Choice([str(each) for each in get_args(annotation)], case_sensitive=False)
    least: Any = next((mark.ge for mark in marks if isinstance(mark, annotated_types.Ge)), None)
    most: Any = next((mark.le for mark in marks if isinstance(mark, annotated_types.Le)), None)
    if annotation in (int, float) and (least, most) != (None, None):
        return click.IntRange(least, most) if annotation is int else click.FloatRange(least, most)
    return click.Path(path_type=Path) if annotation is Path else annotation
