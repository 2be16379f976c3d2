"""The functions that TorchDynamo is said not to follow: each is called, refused, and found by the linter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from cases import RELEASE
from seeing import seen_of

from exportlint.rules.examples import example
from exportlint.rules.untraced import HOOKS, METHODS, PYTHON, TORCH
from exportlint.source.engine import Options, lint

if TYPE_CHECKING:
    from pathlib import Path

UNTRACED = ("fine", "breaks", "breaks")

PATHS = ("exists", "is_dir", "is_file", "open", "read_text", "stat")
# What is called, where a call without arguments is not what shows it.
CALLS = {
    "array.array": "array.array('i', [1])",
    "asyncio.run": "asyncio.run(nothing())",
    "atexit.register": "atexit.register(len)",
    "base64.b64encode": "base64.b64encode(b'a')",
    "base64.b64decode": "base64.b64decode(b'YQ==')",
    **{f"bisect.{name}": f"bisect.{name}([1, 2], 1)" for name in ("bisect", "bisect_left", "bisect_right", "insort")},
    "builtins.__import__": "__import__('math')",
    "builtins.compile": "compile('1', 'a', 'eval')",
    "builtins.dir": "dir(self)",
    "builtins.eval": "eval('x * 2')",
    "builtins.exec": "exec('1')",
    "builtins.memoryview": "memoryview(b'a')",
    "builtins.open": "open('/dev/null')",
    **{f"cmath.{name}": f"cmath.{name}(4)" for name in ("sqrt", "exp", "phase")},
    "contextlib.closing": "contextlib.closing(KEPT)",
    "contextlib.redirect_stderr": "contextlib.redirect_stderr(KEPT)",
    "contextlib.redirect_stdout": "contextlib.redirect_stdout(KEPT)",
    "contextvars.ContextVar": "contextvars.ContextVar('a')",
    "contextvars.variable.get": "VARIABLE.get()",
    "contextvars.variable.reset": "VARIABLE.reset(TOKEN)",
    "contextvars.variable.set": "VARIABLE.set(1)",
    "ctypes.CDLL": "ctypes.CDLL(None)",
    "dataclasses.make_dataclass": "dataclasses.make_dataclass('A', ['a'])",
    "datetime.date": "datetime.date(2020, 1, 1)",
    "datetime.datetime": "datetime.datetime(2020, 1, 1)",
    "datetime.datetime.fromtimestamp": "datetime.datetime.fromtimestamp(0)",
    "functools.cmp_to_key": "functools.cmp_to_key(lambda a, b: 0)",
    **{f"heapq.{name}": f"heapq.{name}([1])" for name in ("heapify", "heappop")},
    "heapq.heappush": "heapq.heappush([], 1)",
    **{f"heapq.{name}": f"heapq.{name}(1, [1, 2])" for name in ("nlargest", "nsmallest")},
    "importlib.import_module": "importlib.import_module('math')",
    "inspect.getmembers": "inspect.getmembers(self)",
    "json.dump": "json.dump([1], KEPT)",
    "json.dumps": "json.dumps({'a': 1})",
    "json.loads": "json.loads('[1]')",
    "logging.getLogger": "logging.getLogger('example')",
    "multiprocessing.Pool": "multiprocessing.Pool(1)",
    "os.makedirs": "os.makedirs('.', exist_ok=True)",
    "os.mkdir": "os.mkdir(tempfile.mkdtemp() + '/a')",
    "os.urandom": "os.urandom(2)",
    **{f"os.path.{name}": f"os.path.{name}('.')" for name in ("exists", "getsize", "isdir", "isfile")},
    **{f"pathlib.path.{name}": f"pathlib.Path('/dev/null').{name}()" for name in PATHS},
    "pathlib.path.glob": "list(pathlib.Path('/').glob('a'))",
    "pathlib.path.mkdir": "pathlib.Path('/').mkdir(exist_ok=True)",
    "pickle.dump": "pickle.dump(1, BYTES)",
    "pickle.dumps": "pickle.dumps(1)",
    "pickle.loads": "pickle.loads(b'I1\\n.')",
    "queue.object.empty": "QUEUE.empty()",
    "queue.object.get": "FULL.get(False)",
    "queue.object.put": "QUEUE.put(1)",
    "random.choices": "random.choices([1, 2])",
    "random.getrandbits": "random.getrandbits(3)",
    "random.seed": "random.seed(0)",
    "random.setstate": "random.setstate(STATE)",
    "random.shuffle": "random.shuffle([1, 2])",
    "secrets.randbelow": "secrets.randbelow(2)",
    "shutil.which": "shutil.which('ls')",
    "signal.getsignal": "signal.getsignal(2)",
    "statistics.mean": "statistics.mean([1, 2])",
    **{f"subprocess.{name}": f"subprocess.{name}(['true'])" for name in ("Popen", "check_output", "run")},
    **{f"sys.{name}": f"sys.{name}(1)" for name in ("getrefcount", "getsizeof")},
    "sys.setrecursionlimit": "sys.setrecursionlimit(1000)",
    **{f"sys.{name}.write": f"sys.{name}.write('')" for name in ("stdout", "stderr")},
    "threading.event.clear": "EVENT.clear()",
    "threading.event.set": "EVENT.set()",
    "threading.lock.acquire": "LOCK.acquire(False)",
    "threading.lock.release": "HELD.release()",
    "threading.lock.wait": "HELD_CONDITION.wait(0)",
    "time.clock_gettime": "time.clock_gettime(time.CLOCK_REALTIME)",
    "time.sleep": "time.sleep(0)",
    "time.strftime": "time.strftime('%Y')",
    "types.SimpleNamespace": "types.SimpleNamespace(a=1)",
    "warnings.filterwarnings": "warnings.filterwarnings('ignore')",
    "warnings.simplefilter": "warnings.simplefilter('ignore')",
    "weakref.proxy": "weakref.proxy(self)",
    "torch.UntypedStorage": "torch.UntypedStorage(3)",
    "torch.can_cast": "torch.can_cast(torch.float, torch.int)",
    "torch.frombuffer": "torch.frombuffer(DATA, dtype=torch.uint8)",
    "torch.is_storage": "torch.is_storage(x)",
    "torch.manual_seed": "torch.manual_seed(0)",
    "torch.result_type": "torch.result_type(x, 1.0)",
    "torch.set_flush_denormal": "torch.set_flush_denormal(False)",
    "torch.set_num_threads": "torch.set_num_threads(1)",
    "torch.set_rng_state": "torch.set_rng_state(SEEDS)",
    "torch.sparse_coo_tensor": "torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), [1.0], (2, 2))",
    "torch.sparse_csr_tensor": "torch.sparse_csr_tensor([0, 1, 1], [0], [1.0], (2, 2))",
    "torch.typename": "torch.typename(x)",
    "torch.autograd.set_detect_anomaly": "torch.autograd.set_detect_anomaly(False)",
    "torch.autograd.graph.saved_tensors_hooks": "torch.autograd.graph.saved_tensors_hooks(len, len)",
    "torch.backends.cudnn.flags": "torch.backends.cudnn.flags(enabled=False).__enter__()",
    "torch.cuda.manual_seed": "torch.cuda.manual_seed(0)",
    "torch.cuda.manual_seed_all": "torch.cuda.manual_seed_all(0)",
    "torch.fx.symbolic_trace": "torch.fx.symbolic_trace(self.fc)",
    "torch.jit.fork": "torch.jit.fork(torch.sin, x)",
    "torch.jit.isinstance": "torch.jit.isinstance(x, torch.Tensor)",
    "torch.nn.ParameterDict": "nn.ParameterDict({'a': torch.ones(4)})",
    "torch.nn.ParameterList": "nn.ParameterList([torch.ones(4)])",
    **{f"torch.optim.{name}": f"torch.optim.{name}(self.parameters(), lr=0.1)" for name in ("Adam", "AdamW", "SGD")},
    "torch.random.fork_rng": "torch.random.fork_rng().__enter__()",
    "torch.random.manual_seed": "torch.random.manual_seed(0)",
    "torch.random.set_rng_state": "torch.random.set_rng_state(SEEDS)",
    "torch.storage.nbytes": "x.untyped_storage().nbytes()",
    "torch.utils.checkpoint.checkpoint_sequential": "checkpoint_sequential(self.parts, 1, x, use_reentrant=False)",
    "multiprocessing.Process": "multiprocessing.Process(target=len)",
    **{f"hashlib.{name}": f"hashlib.{name}(b'a')" for name in ("md5", "sha1", "sha256")},
}
KEPT = """
KEPT, BYTES, DATA = io.StringIO(), io.BytesIO(), bytearray(b"abcd")
VARIABLE = contextvars.ContextVar("variable", default=1)
TOKEN = VARIABLE.set(2)
QUEUE, FULL = queue.Queue(), queue.Queue()
[FULL.put(1) for _ in range(99)]
STATE, SEEDS = random.getstate(), torch.get_rng_state()
EVENT, LOCK = threading.Event(), threading.Lock()
HELD = threading.Semaphore(0)
HELD_CONDITION = threading.Condition()
HELD_CONDITION.acquire()


async def nothing():
    return 1
"""
INIT = "self.fc = nn.Linear(4, 4)\nself.parts = nn.Sequential(nn.Tanh())"
SPACES = sorted({name.partition(".")[0] for name in PYTHON} - {"builtins"})
BODIES = {
    **{name: f"y = {CALLS.get(name, name.removeprefix('builtins.') + '()')}\nreturn x * 2" for name in PYTHON | TORCH},
    **{name: f"y = (x * 1).{name}()\nreturn x * 2" for name in METHODS},
    **{name: f"self.fc.{name}(lambda *given: None)\nreturn x * 2" for name in HOOKS},
    "torch.compiler.disable": "y = torch.compiler.disable(len)\nreturn x * 2",
    "builtins.__build_class__": "class A:\n    k = 2\nreturn x * A.k",
}


def source(name: str) -> str:
    """The text of a file in which the function of this name is called."""
    words = set(re.findall(r"\w+", BODIES[name]))
    above = KEPT if any(word in KEPT for word in words if word.isupper() or word == "nothing") else ""
    imports = "".join(f"import {space}\n" for space in (*SPACES, "io") if space in words or above)
    imports += "from torch.utils.checkpoint import checkpoint_sequential\n" if "checkpoint_sequential" in words else ""
    imports += "import torch.utils.data\n" if "data" in words else ""
    lines = "\n".join("    " + line for line in BODIES[name].splitlines())
    return example(
        f"def forward(self, x):\n{lines}", imports=imports, above=above, init=INIT if "self" in words else ""
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """What torch made of each."""
    jobs = [{"id": name, "source": source(name), "proof": "capture"} for name in BODIES]
    return seen_of(jobs, tmp_path_factory.mktemp("untraced"))


@pytest.mark.slow
@pytest.mark.skipif(RELEASE != (2, 13), reason="the names are those that torch 2.13 refuses")
@pytest.mark.parametrize("name", sorted(BODIES))
def test_what_is_said_not_to_be_followed_is_refused(name: str, seen: dict[str, dict[str, list[str]]]) -> None:
    assert "error" not in seen[name], seen[name]
    outcomes = [outcome for outcome, _ in seen[name].values()]
    assert outcomes[1:] == ["breaks", "breaks"], seen[name]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_it_is_found(name: str, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(source(name), encoding="utf-8")
    for mode in ("export-strict", "compile"):
        assert "EXP402" in {p.rule.code for p in lint([file], Options(modes=(mode,)))}
