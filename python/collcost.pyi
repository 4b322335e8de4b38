"""What collective operations cost: the library's functions, with reports as plain dictionaries.

A question's keywords are the parameters of `collcost.toml` by their keys: `on`, `n`, `nodes`,
`gpus_per_node`, `alpha`, `bw`, `alpha_inter`, `bw_inter`, ...; `names("parameters")` has all.
"""

import sys
from collections.abc import Iterable
from os import PathLike
from typing import Any, SupportsFloat, SupportsIndex, TypedDict, Union, type_check_only

if sys.version_info >= (3, 12):
    from collections.abc import Buffer as _Buffer
else:
    _Buffer = Any

__all__ = [
    "Error", "__version__", "bucket", "check", "choose", "compare", "crossover", "expect", "explain", "ideal",
    "jobs", "machine", "names", "plan", "price", "server", "simulate", "times",
]

__version__: str

_Size = Union[SupportsIndex, SupportsFloat, str]
_File = Union[str, PathLike[str]]
_Value = Union[SupportsIndex, SupportsFloat, str, PathLike[str], None]
_Numbers = Union[Iterable[Union[SupportsIndex, SupportsFloat, str]], _Buffer]
_Report = dict[str, Any]

class Error(ValueError):
    """A question that cannot be answered: what is wrong, where, and what would be accepted."""

@type_check_only
class Runs(TypedDict, total=False):
    algorithm: str
    protocol: str | None
    channels: int | None
    library: str | None
    version: str | None
    rules: str

@type_check_only
class Expect(TypedDict):
    """A time that will be seen, with its band: a tenth of real times is shorter, a tenth longer."""

    time_s: float
    low_s: float
    high_s: float
    busbw_Bps: float | None
    basis: str
    runs: Runs
    error: dict[str, float] | None

@type_check_only
class Times(TypedDict):
    """Each as the sizes came: a list for a list, an array for an array."""

    time_s: Any
    low_s: Any
    high_s: Any

@type_check_only
class Choice(TypedDict):
    name: str
    id: int | None
    rule: str

@type_check_only
class Point(TypedDict):
    size_bytes: int
    measured_s: float
    time_s: float
    low_s: float
    high_s: float

@type_check_only
class Cause(TypedDict):
    id: str
    what: str
    off: float | None
    chance: float
    evidence: str
    next: str

@type_check_only
class Verdict(TypedDict):
    """`verdict` is `healthy`, `ill` or `cannot tell`; `health` is what the times look like."""

    verdict: str
    health: str
    points: list[Point]
    causes: list[Cause]
    notes: list[str]

@type_check_only
class Played(TypedDict):
    time_s: float
    max_sent_bytes: float
    max_received_bytes: float
    total_bytes: float
    messages: int
    max_messages: int
    rounds: int

def price(
    collective: str,
    size: _Size,
    n: SupportsIndex,
    *,
    algorithm: str | None = None,
    **with_: _Value,
) -> _Report:
    """What a collective will take, and every algorithm with its ideal price and the lower bound:
    `collcost/cost/2`."""

def check(file: _File = "collcost.toml") -> _Report:
    """Holds the budgets of a file against the model, or against measurements: `collcost/check/1`. A file with
    faults raises `Error`."""

def machine(name: _File) -> _Report:
    """A machine: its figures, each with where it comes from."""

def names(what: str = "machines") -> list[str]:
    """The names of a part of what has any: `machines`, `collectives`, `algorithms`, `libraries`, `policies`, `topics`,
    `contradictions`, `parameters`, `batch`."""

def expect(collective: str, size: _Size, **with_: _Value) -> Expect:
    """What a call will take: time, band, what runs, and what that is known from."""

def times(collective: str, sizes: _Numbers, **with_: _Value) -> Times:
    """The same times for many sizes at once, in bytes or as texts: a list, a numpy array, whatever shows its memory."""

def ideal(collective: str, size: _Size, **with_: _Value) -> list[_Report]:
    """Every algorithm that applies with its ideal price, the cheapest first."""

def choose(collective: str, size: _Size, library: str = "nccl", **with_: _Value) -> Choice:
    """What a library chooses: `nccl`, `openmpi@4.1`, `mpich`, or that with a tuning file: `rules-file:PATH`."""

def explain(collective: str, size: _Size, algorithm: str, **with_: _Value) -> _Report:
    """The formula of an algorithm, with the question's numbers, step by step."""

def compare(collective: str, sizes: _Numbers, times: _Numbers, **with_: _Value) -> Verdict:
    """Whether measured times are healthy, and if not, why."""

def crossover(collective: str, **with_: _Value) -> _Report:
    """Where the answer changes as the size grows: what the library runs, and the lowest ideal time."""

def plan(file: _File) -> _Report:
    """The collectives of the steps in a file."""

def jobs(*files: _File, **set: _Value) -> _Report:
    """The training jobs of configurations; keywords override their keys."""

def server(*files: _File, **set: _Value) -> _Report:
    """The same of what serves a model: memory, a decode step and a prefill."""

def bucket(gradients: _Numbers, rule: str = "ddp", **with_: _Value) -> _Report:
    """Gradients of 32 bits, by their bytes in the order of registration, fused by a rule and priced."""

def simulate(collective: str, size: _Size, algorithm: str | None = None, **with_: _Value) -> Played:
    """Plays the schedule of an algorithm, or of what the library runs, message by message."""
