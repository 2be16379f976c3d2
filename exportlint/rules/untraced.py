"""Functions and methods that TorchDynamo does not follow, by the names that the analysis has for them.

`tests/rules/test_untraced.py` calls each and sees it refused. What a later release follows goes from here.
"""

from __future__ import annotations


def _names(space: str, words: str) -> frozenset[str]:
    return frozenset(f"{space}.{word}" for word in words.split())


PYTHON = frozenset().union(
    _names("array", "array"),
    _names("asyncio", "run"),
    _names("atexit", "register"),
    _names("base64", "b64encode b64decode"),
    _names("bisect", "bisect bisect_left bisect_right insort"),
    _names("builtins", "__build_class__ __import__ bytearray compile dir eval exec globals memoryview object open"),
    _names("cmath", "sqrt exp phase"),
    _names("contextlib", "closing redirect_stderr redirect_stdout"),
    _names("contextvars", "ContextVar copy_context variable.get variable.reset variable.set"),
    _names("ctypes", "CDLL c_double c_float c_int"),
    _names("dataclasses", "make_dataclass"),
    _names("datetime", "date datetime timedelta datetime.fromtimestamp datetime.now datetime.today datetime.utcnow"),
    _names("decimal", "Decimal"),
    _names("functools", "cmp_to_key"),
    _names("gc", "collect disable enable get_objects"),
    _names("hashlib", "md5 sha1 sha256"),
    _names("heapq", "heapify heappop heappush nlargest nsmallest"),
    _names("importlib", "import_module"),
    _names("inspect", "currentframe getmembers stack"),
    _names("io", "BytesIO StringIO"),
    _names("json", "dump dumps loads"),
    _names("logging", "basicConfig getLogger"),
    _names("multiprocessing", "Pool Process cpu_count"),
    _names("os", "cpu_count getcwd getpid listdir makedirs mkdir urandom"),
    _names("os.path", "exists getsize isdir isfile"),
    _names("pathlib", "path.exists path.glob path.is_dir path.is_file path.mkdir path.open path.read_text path.stat"),
    _names("pickle", "dump dumps loads"),
    _names("queue", "LifoQueue PriorityQueue Queue object.empty object.get object.put"),
    _names("random", "choices getrandbits getstate seed setstate shuffle"),
    _names("secrets", "randbelow token_hex"),
    _names("shutil", "which"),
    _names("signal", "getsignal"),
    _names("socket", "gethostname"),
    _names("statistics", "mean"),
    _names("subprocess", "Popen check_output run"),
    _names(
        "sys", "_getframe getrefcount getsizeof setrecursionlimit stderr.flush stderr.write stdout.flush stdout.write"
    ),
    _names("tempfile", "NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp"),
    _names("threading", "BoundedSemaphore Condition Event Lock RLock Semaphore current_thread get_ident local"),
    _names("threading", "event.clear event.set lock.acquire lock.release lock.wait"),
    _names("time", "clock_gettime ctime gmtime localtime monotonic monotonic_ns perf_counter perf_counter_ns"),
    _names("time", "process_time sleep strftime thread_time time time_ns"),
    _names("traceback", "format_stack print_stack"),
    _names("types", "SimpleNamespace"),
    _names("uuid", "uuid1 uuid4"),
    _names("warnings", "filterwarnings resetwarnings simplefilter"),
    _names("weakref", "proxy"),
)
"""Functions of Python's own library."""

FOLLOWED_SINCE_2_14 = frozenset({
    "builtins.object", "contextvars.variable.get", "functools.cmp_to_key", "heapq.nlargest", "heapq.nsmallest",
    "random.seed", "random.shuffle", "torch.backends.mps.is_available",
})  # fmt: skip
"""Those of all these that torch 2.14 follows."""

TORCH = frozenset().union(
    _names("torch", "Generator UntypedStorage can_cast frombuffer get_default_device get_deterministic_debug_mode"),
    _names("torch", "get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state initial_seed"),
    _names("torch", "is_inference_mode_enabled is_storage is_warn_always_enabled manual_seed result_type"),
    _names("torch", "set_flush_denormal set_num_threads set_rng_state sparse_coo_tensor sparse_csr_tensor typename"),
    _names("torch._dynamo", "graph_break"),
    _names("torch.autograd", "detect_anomaly set_detect_anomaly graph.save_on_cpu graph.saved_tensors_hooks"),
    _names("torch.backends", "cudnn.flags cudnn.is_available cuda.flash_sdp_enabled cuda.is_built mkl.is_available"),
    _names("torch.backends", "mkldnn.is_available mps.is_available openmp.is_available"),
    _names("torch.compiler", "disable cudagraph_mark_step_begin reset"),
    _names("torch.cuda", "manual_seed manual_seed_all max_memory_allocated memory_allocated"),
    _names("torch.futures", "Future"),
    _names("torch.fx", "symbolic_trace"),
    _names("torch.hub", "get_dir"),
    _names("torch.jit", "fork isinstance"),
    _names("torch.nn", "ParameterDict ParameterList"),
    _names("torch.optim", "Adam AdamW SGD"),
    _names("torch.random", "fork_rng get_rng_state initial_seed manual_seed set_rng_state"),
    _names("torch.storage", "nbytes"),
    _names("torch.utils.checkpoint", "checkpoint_sequential"),
    _names("torch.utils.data", "get_worker_info"),
)
"""Functions of torch, most of which read or set a state of the process."""

METHODS = frozenset({
    "_is_view", "_typed_storage", "_use_count", "dense_dim", "is_conj", "is_distributed", "is_inference", "is_neg",
    "is_pinned", "is_shared", "is_signed", "random_", "sparse_dim", "storage", "storage_offset",
})  # fmt: skip
"""Methods of tensors, which ask for what TorchDynamo does not keep of one."""

HOOKS = frozenset(
    f"register_{name}_hook" for name in ("forward", "forward_pre", "full_backward", "full_backward_pre", "backward")
)
"""Methods of modules that hang a hook on them."""
