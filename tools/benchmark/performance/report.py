"""Times as figures, tables and plots. Pure functions of what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from swarm_memory.schema.benchmark import Figure, Plot, Series, Table
from swarm_memory.tools.benchmark.metrics import percentile
from swarm_memory.tools.benchmark.performance.published import BYTES_PER_MEMORY, MEASUREMENTS


@dataclass(frozen=True, slots=True)
class Size:
    """A bank of one size."""

    items: int
    insert_s: float
    """To bring it here from the size before."""
    inserted: int
    retrieve_ms: tuple[float, ...]
    size_bytes: int
    resident_bytes: int | None
    """Memory of the process; None where the system does not tell."""


@dataclass(frozen=True, slots=True)
class Load:
    """A number of clients that call at the same time over HTTP."""

    clients: int
    latencies_ms: tuple[float, ...]
    seconds: float
    failed: int


def operation_figures(subject: str, times: Mapping[str, Sequence[float]]) -> list[Figure]:
    """Return mean, p50, p95 of each operation in ms."""
    return [
        _time(subject, f"{key}_{name}", value, len(each))
        for key, each in times.items()
        if each
        for name, value in (
            ("mean_ms", fmean(each)),
            ("p50_ms", percentile(each, 0.5)),
            ("p95_ms", percentile(each, 0.95)),
        )
    ]


def operation_table(items: int, times: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """Return our times beside the published ones, one column for each embedder."""
    rows = [
        (
            str(number),
            each.published,
            f"{each.published_ms:g} per {each.per}",
            *(_shown(of.get(each.key)) for of in times.values()),
            each.theirs,
            each.ours,
        )
        for number, each in enumerate(MEASUREMENTS, start=1)
    ]
    headings = ("#", "measurement", "published, ms", *(f"{name}, ms: mean (p50; p95; most)" for name in times))
    note = "published: another machine, another language, 2,431 items of 1,024 dimensions, and often something else"
    title = f"Operations on {items:,} items"
    return Table(title=title, headings=(*headings, "it measured", "ours measures"), rows=tuple(rows), note=note)


def growth_figures(subject: str, sizes: Sequence[Size]) -> list[Figure]:
    """Return what each size gave."""
    found: list[Figure] = []
    for each in sizes:
        part = f"{each.items} items"
        rate = each.inserted / each.insert_s
        found += [
            Figure(subject=subject, measure="inserts_per_s", part=part, value=rate, n=each.inserted),
            *(
                _time(subject, f"retrieve_p{share}_ms", percentile(each.retrieve_ms, share / 100), n, part)
                for share in (50, 95)
                if (n := len(each.retrieve_ms))
            ),
            Figure(
                subject=subject, measure="bytes_per_item", part=part, value=each.size_bytes / each.items, better="lower"
            ),
        ]
        if each.resident_bytes is not None:
            memory = each.resident_bytes / 1e6
            found.append(Figure(subject=subject, measure="resident_mb", part=part, value=memory, better="lower"))
    return found


def growth_table(sizes: Sequence[Size]) -> Table:
    """Return a row for each size."""
    rows = tuple(
        (
            f"{each.items:,}",
            f"{each.inserted / each.insert_s:,.0f}",
            f"{percentile(each.retrieve_ms, 0.5):.2f}",
            f"{percentile(each.retrieve_ms, 0.95):.2f}",
            f"{each.size_bytes / 1e6:.1f}",
            f"{each.size_bytes / each.items:,.0f}",
            "-" if each.resident_bytes is None else f"{each.resident_bytes / 1e6:.0f}",
        )
        for each in sizes
    )
    headings = ("items", "inserts/s", "retrieve p50, ms", "p95, ms", "MB on disk", "bytes/item", "MB of memory")
    note = (
        f"inserts in batches of 500; published: {BYTES_PER_MEMORY:,.0f} bytes for an item of 1,024 dimensions, without "
        "a keyword index; memory: of the whole process"
    )
    return Table(title="Growth", headings=headings, rows=rows, note=note)


def growth_plots(sizes: Sequence[Size]) -> list[Plot]:
    """Return latency and size by number of items, on logarithmic axes."""
    x = tuple(float(each.items) for each in sizes)
    latency = tuple(
        Series(name=f"p{share}", x=x, y=tuple(percentile(each.retrieve_ms, share / 100) for each in sizes))
        for share in (50, 95)
    )
    disk = Series(name="MB on disk", x=x, y=tuple(each.size_bytes / 1e6 for each in sizes))
    rate = Series(name="inserts/s", x=x, y=tuple(each.inserted / each.insert_s for each in sizes))
    return [
        Plot(title="Retrieve by size", x_label="items", y_label="ms", log_x=True, log_y=True, series=latency),
        Plot(title="Size on disk", x_label="items", y_label="MB", log_x=True, log_y=True, series=(disk,)),
        Plot(title="Insert rate by size", x_label="items", y_label="items/s", log_x=True, series=(rate,)),
    ]


def load_figures(loads: Sequence[Load]) -> list[Figure]:
    """Return what each number of clients gave."""
    return [
        figure
        for each in loads
        if each.latencies_ms
        for figure in (
            Figure(
                subject="http", measure="requests_per_s", part=f"{each.clients} clients",
                value=len(each.latencies_ms) / each.seconds, n=len(each.latencies_ms),
            ),
            *(
                _time(
                    "http", f"p{share}_ms", percentile(each.latencies_ms, share / 100), len(each.latencies_ms),
                    f"{each.clients} clients",
                )
                for share in (50, 95)
            ),
        )
    ]  # fmt: skip


def load_table(loads: Sequence[Load]) -> Table:
    """Return a row for each number of clients."""
    rows = tuple(
        (
            str(each.clients),
            str(len(each.latencies_ms)),
            str(each.failed),
            f"{len(each.latencies_ms) / each.seconds:.1f}",
            *(f"{percentile(each.latencies_ms, share):.1f}" for share in (0.5, 0.95)),
        )
        for each in loads
        if each.latencies_ms
    )
    headings = ("clients", "answered", "failed", "requests/s", "p50, ms", "p95, ms")
    note = "retrieve_memories by the MCP client, each with a session of its own; server and clients share the machine"
    return Table(title="Clients over HTTP", headings=headings, rows=rows, note=note)


def load_plot(loads: Sequence[Load]) -> Plot:
    """Return latency by number of clients."""
    sound = [each for each in loads if each.latencies_ms]
    x = tuple(float(each.clients) for each in sound)
    series = tuple(
        Series(name=f"p{int(share * 100)}", x=x, y=tuple(percentile(each.latencies_ms, share) for each in sound))
        for share in (0.5, 0.95)
    )
    return Plot(title="Clients over HTTP", x_label="clients", y_label="ms", log_x=True, log_y=True, series=series)


def _time(subject: str, measure: str, value: float, n: int, part: str = "") -> Figure:
    return Figure(subject=subject, measure=measure, part=part, value=value, n=n, better="lower")


def _shown(times: Sequence[float] | None) -> str:
    if not times:
        return "-"
    middle, late = percentile(times, 0.5), percentile(times, 0.95)
    return f"{fmean(times):.3g} ({middle:.3g}; {late:.3g}; {max(times):.3g})"
