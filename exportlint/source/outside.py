"""What code reads outside of the model, by the names of the functions: clocks, random numbers, the environment."""

from __future__ import annotations

_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_GENERATORS = ("random", "random.Random", "random.SystemRandom")
_DISTRIBUTIONS = (
    "random", "gauss", "normalvariate", "lognormvariate", "vonmisesvariate", "betavariate", "gammavariate",
    "expovariate", "paretovariate", "weibullvariate", "triangular", "getrandbits", "randbytes",
)  # fmt: skip
_RANGES = ("uniform", "randint", "randrange")

OUTSIDE = frozenset({
    "environment", "clock", "random number", "random range", "own generator", "numpy random number", "address",
    "computed address",
})  # fmt: skip
"""How numbers are read that come from outside of the model."""
READINGS = {
    **dict.fromkeys(("os.environ.get", "os.getenv"), "environment"),
    **dict.fromkeys((f"time.{name}" for name in _CLOCKS), "clock"),
    **dict.fromkeys((f"time.{name}_ns" for name in _CLOCKS), "clock"),
    **dict.fromkeys(("time.localtime", "time.gmtime", "time.strftime", "time.ctime"), "clock"),
    **dict.fromkeys((f"datetime.{name}" for name in ("datetime.now", "datetime.utcnow", "datetime.today")), "clock"),
    "datetime.date.today": "clock",
    **dict.fromkeys((f"{space}.{name}" for space in _GENERATORS for name in _DISTRIBUTIONS), "random number"),
    **dict.fromkeys((f"random.{name}" for name in _RANGES), "random range"),
    **dict.fromkeys((f"random.Random.{name}" for name in ("random", *_RANGES)), "own generator"),
    **dict.fromkeys((f"random.SystemRandom.{name}" for name in _RANGES), "random number"),
    **dict.fromkeys((f"secrets.{name}" for name in ("randbelow", "randbits", "token_bytes")), "random number"),
    **dict.fromkeys(("os.urandom", "uuid.uuid1", "uuid.uuid4"), "random number"),
}
"""What each function reads; all of ``numpy.random`` is a ``numpy random number``."""
CHOICES = frozenset(f"{space}.choice" for space in (*_GENERATORS, "secrets"))
"""Functions that draw one of several values."""
SEVERAL_CHOICES = frozenset(f"{space}.choices" for space in _GENERATORS)
"""Functions that draw some of several values, each perhaps more than once."""
ORDERS = frozenset(f"{space}.{name}" for space in _GENERATORS for name in ("sample", "shuffle"))
"""Functions that draw an order."""
