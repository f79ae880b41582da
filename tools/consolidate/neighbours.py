"""All pairs of near vectors in a large bank, without comparing all with all: random hyperplanes, verified exactly.

It knows vectors only, in the order of their rank; numpy is imported when it is first needed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from numpy import float32, int8, int64, uint64
    from numpy.typing import NDArray

    Numbers = NDArray[float32] | NDArray[int8]

EXACT_UP_TO = 6000
"""So many vectors are compared with each other outright, which is then faster than hashing them."""

RECALL = 0.99
"""Of the pairs at the floor itself so many are found by hashing; of nearer ones more."""

NEAREST, BEST = 24, 8
MAX_PARTNERS = NEAREST + BEST
"""Of each vector at most so many partners of better rank are given: the nearest, and those of best rank, so that in a
crowd everyone is compared with who leads it."""

_SEED = 20
_SKETCH_BITS = 512
_SKETCH_MARGIN = 3.0
"""Standard deviations above the bits in which a pair at the floor differs on average: 1 in 1,000 is lost."""

_CROWD = 24
"""In a bucket each vector is compared with so many before it, and with the first one."""

_BLOCK_ROWS = 1024
_PAIRS_AT_ONCE, _VECTORS_AT_ONCE = 1 << 16, 1 << 14
_TABLES_AT_ONCE = 12

Progress = Callable[[int, int], None]


class Pair(NamedTuple):
    """Two vectors by their places: `first` ranks before `second`."""

    first: int
    second: int
    cosine: float


class Plan(NamedTuple):
    """How vectors are hashed."""

    bits: int
    tables: int


def near_pairs(
    directions: Sequence[bytes],
    element: Literal["int8", "float32"],
    floor: float,
    *,
    sure: float,
    on_progress: Progress,
    exact_up_to: int = EXACT_UP_TO,
) -> list[Pair]:
    """Return pairs with a cosine of `floor` (above 0) or more, sorted by `second`, then `first`.

    `directions` are vectors of one length above 0, best rank first, in the bytes the store keeps. All pairs are found
    for up to `exact_up_to` vectors; for more, 99 of 100 with a cosine of `sure` and fewer of those below (Charikar
    2002: two vectors at an angle a differ in the sign of a random projection with probability a / π). Of each vector at
    most `MAX_PARTNERS` partners are given. `on_progress` is told (done, total) and may raise to stop.
    """
    import numpy

    if len(directions) < 2:
        return []
    matrix = numpy.frombuffer(b"".join(directions), dtype="i1" if element == "int8" else "f4")
    search = _Search(matrix.reshape(len(directions), -1), floor, on_progress)
    if len(directions) <= exact_up_to:
        search.compare_all()
    else:
        search.compare_hashed(plan(len(directions), sure))
    return search.pairs()


def plan(count: int, floor: float) -> Plan:
    """Return how many hyperplanes make a bucket, and how many tables of buckets give the recall at the floor."""
    bits = max(8, round(math.log2(max(2, count))) + 4)
    together = (1.0 - math.acos(floor) / math.pi) ** bits
    return Plan(bits, max(1, math.ceil(math.log(1.0 - RECALL) / math.log1p(-together))))


class _Search:
    """One search among the rows of a matrix."""

    def __init__(self, matrix: "Numbers", floor: float, on_progress: Progress) -> None:
        import numpy

        self._np = numpy
        self._matrix = matrix
        self._floor = floor
        self._on_progress = on_progress
        self._lengths: NDArray[float32] = numpy.concatenate(
            [numpy.sqrt((block * block).sum(axis=1)) for block in self._blocks()]
        )
        self._keys: NDArray[int64] = numpy.empty(0, "i8")
        """Pairs found, each as second · count + first."""
        self._cosines: NDArray[float32] = numpy.empty(0, "f4")

    def compare_all(self) -> None:
        """Compare every row with every one before it."""
        np, count = self._np, len(self._matrix)
        unit = np.concatenate(list(self._blocks())) / self._lengths[:, None]
        for start in range(0, count, _BLOCK_ROWS):
            end = min(count, start + _BLOCK_ROWS)
            near = np.tril(unit[start:end] @ unit[:end].T, start - 1)
            rows, firsts = np.nonzero(near >= self._floor)
            self._add((rows + start) * count + firsts, near[rows, firsts])
            self._on_progress(end, count)

    def compare_hashed(self, hashing: Plan) -> None:
        """Compare rows that fall into one bucket in at least one table."""
        np, (count, dimensions) = self._np, self._matrix.shape
        draw = np.random.default_rng(_SEED)
        sketches = self._sketches(draw.standard_normal((dimensions, _SKETCH_BITS), dtype="f4"))
        waiting: list[NDArray[int64]] = []
        for start in range(0, hashing.tables, _TABLES_AT_ONCE):
            turn = min(_TABLES_AT_ONCE, hashing.tables - start)
            planes = draw.standard_normal((dimensions, hashing.bits * turn), dtype="f4")
            waiting += [self._alike(self._together(code), sketches) for code in self._codes(planes, turn)]
            if sum(map(len, waiting)) > 4 * count or start + turn == hashing.tables:
                self._verify(np.concatenate(waiting))
                waiting = []
            self._on_progress(start + turn, hashing.tables)

    def pairs(self) -> list[Pair]:
        """Return what was found."""
        seconds, firsts = self._np.divmod(self._keys, len(self._matrix))
        cosines = self._np.minimum(self._cosines, 1.0)
        return list(map(Pair, firsts.tolist(), seconds.tolist(), cosines.tolist()))

    def _blocks(self) -> "Iterator[NDArray[float32]]":
        for start in range(0, len(self._matrix), _BLOCK_ROWS):
            yield self._matrix[start : start + _BLOCK_ROWS].astype("f4")

    def _sketches(self, planes: "NDArray[float32]") -> "NDArray[uint64]":
        """Return for each row on which side of each plane it lies, as packed bits."""
        np = self._np
        return np.concatenate([np.packbits(block @ planes > 0, axis=1) for block in self._blocks()]).view("u8")

    def _codes(self, planes: "NDArray[float32]", tables: int) -> "list[NDArray[int64]]":
        """Return the bucket of each row in each of some tables."""
        np = self._np
        powers = 1 << np.arange(planes.shape[1] // tables, dtype="i8")
        sides = np.concatenate([block @ planes > 0 for block in self._blocks()])
        return [part @ powers for part in np.split(sides, tables, axis=1)]

    def _together(self, code: "NDArray[int64]") -> "NDArray[int64]":
        """Return the pairs that share a bucket, as rows of seconds and firsts; of crowded buckets some of them."""
        np, count = self._np, len(code)
        order = np.argsort(code, kind="stable")
        ordered = code[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        heads = np.repeat(starts, np.diff(np.append(starts, count)))
        places = np.arange(count)
        found: list[NDArray[int64]] = []
        for distance in range(1, _CROWD + 1):
            places = places[places - distance >= heads[places]]
            found.append(np.stack([order[places], order[places - distance]]))
        crowded = places[places - _CROWD > heads[places]]
        found.append(np.stack([order[crowded], order[heads[crowded]]]))
        return np.concatenate(found, axis=1)

    def _alike(self, pairs: "NDArray[int64]", sketches: "NDArray[uint64]") -> "NDArray[int64]":
        """Return the keys of those pairs whose sketches are no farther apart than at the floor."""
        np = self._np
        if not hasattr(np, "bitwise_count"):  # numpy 1: every pair is compared by its vectors, which takes longer
            return pairs[0] * len(self._matrix) + pairs[1]
        share = math.acos(self._floor) / math.pi
        most = _SKETCH_BITS * share + _SKETCH_MARGIN * math.sqrt(_SKETCH_BITS * share * (1 - share))
        found: list[NDArray[int64]] = [np.empty(0, "i8")]
        for start in range(0, pairs.shape[1], _PAIRS_AT_ONCE):
            seconds, firsts = pairs[:, start : start + _PAIRS_AT_ONCE]
            close = np.bitwise_count(sketches[seconds] ^ sketches[firsts]).sum(axis=1) <= most
            found.append(seconds[close] * len(self._matrix) + firsts[close])
        return np.concatenate(found)

    def _verify(self, keys: "NDArray[int64]") -> None:
        """Add those of the pairs that reach the floor."""
        np, rows, count = self._np, self._matrix, len(self._matrix)
        near: list[tuple[NDArray[int64], NDArray[float32]]] = [(np.empty(0, "i8"), np.empty(0, "f4"))]
        for start in range(0, len(keys), _VECTORS_AT_ONCE):
            part = keys[start : start + _VECTORS_AT_ONCE]
            seconds, firsts = part // count, part % count
            products = np.einsum("ij,ij->i", rows[firsts].astype("f4"), rows[seconds].astype("f4"))
            cosines = products / (self._lengths[firsts] * self._lengths[seconds])
            reached = cosines >= self._floor
            near.append((part[reached], cosines[reached]))
        self._add(np.concatenate([part for part, _ in near]), np.concatenate([cosines for _, cosines in near]))

    def _add(self, keys: "NDArray[int64]", cosines: "NDArray[float32]") -> None:
        """Add pairs, and keep of each second the partners that are given."""
        np = self._np
        self._keys, places = np.unique(np.concatenate([self._keys, keys]), return_index=True)
        self._cosines = np.concatenate([self._cosines, cosines])[places]
        seconds = self._keys // len(self._matrix)
        starts = np.flatnonzero(np.concatenate([[True], seconds[1:] != seconds[:-1]])[: len(seconds)])
        by_rank = np.arange(len(seconds)) - np.repeat(starts, np.diff(np.append(starts, len(seconds))))
        order = np.lexsort((-self._cosines, seconds))
        nearest = order[by_rank < NEAREST]
        kept = np.union1d(nearest, np.flatnonzero(by_rank < BEST))
        self._keys, self._cosines = self._keys[kept], self._cosines[kept]
