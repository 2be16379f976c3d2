"""Ways to bake a device, each with how to mend it, and the places in a model where that may happen."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from typing import NamedTuple

from exportlint.checks.case import ModelCase

MARK = "# <-"


class Kind(NamedTuple):
    """A way to bake a device: the body of the class's file, the rule, and what to replace to mend it."""

    rule: str
    text: str
    mend: tuple[str, str]


def model(body, init="pass", base="nn.Module", name="M"):
    """The source of a module with these bodies of ``__init__`` and ``forward``."""
    head = f"class {name}({base}):\n    def __init__(self):\n        super().__init__()\n"
    return (
        head + textwrap.indent(init, " " * 8) + "\n    def forward(self, x):\n" + textwrap.indent(body, " " * 8) + "\n"
    )


BUFFER = ("self.t = torch.ones(4)", "self.register_buffer('t', torch.ones(4))")
NO_DEVICE = ("()", "(device=x.device)")

KINDS = {
    "literal": Kind("EXP201", model("return x + torch.ones(4, device='cpu')  # <-"), ("'cpu'", "x.device")),
    "literal in a variable": Kind(
        "EXP201",
        model("d = torch.device('cpu')\nm = torch.ones(4, device=d)  # <-\nreturn x + m"),
        ("device=d", "device=x.device"),
    ),
    "literal in the config": Kind(
        "EXP201",
        model("return x + torch.ones(4, device=self.d)  # <-", "self.d = torch.device('cpu')"),
        ("device=self.d", "device=x.device"),
    ),
    "move to a literal": Kind("EXP201", model("y = x.cpu()  # <-\nreturn x + y"), (".cpu()", ".clone()")),
    "move to a literal, then work": Kind(
        "EXP201", model("y = x.to('cpu')  # <-\nz = y * 2\nreturn x + z[:, :4]"), ("'cpu'", "x.device")
    ),
    "missing": Kind("EXP202", model("m = torch.arange(4)  # <-\nreturn x * m"), ("(4)", "(4, device=x.device)")),
    "missing, worked on": Kind(
        "EXP202",
        model("m = torch.ones(4, 4)  # <-\nm = torch.triu(m, 1).bool()\nreturn x.masked_fill(m[0], 0.0)"),
        ("(4, 4)", "(4, 4, device=x.device)"),
    ),
    "tensor of a list": Kind(
        "EXP202", model("m = torch.tensor([1.0, 2, 3, 4])  # <-\nreturn x * m"), ("4])", "4], device=x.device)")
    ),
    "from numpy": Kind(
        "EXP202",
        "import numpy\n" + model("m = torch.from_numpy(numpy.ones(4, 'float32'))  # <-\nreturn x * m"),
        ("'float32'))", "'float32')).to(x.device)"),
    ),
    "legacy constructor": Kind(
        "EXP202",
        model("m = torch.FloatTensor(2, 4).fill_(1.0)  # <-\nreturn x * m"),
        ("torch.FloatTensor(2, 4)", "x.new_empty(2, 4)"),
    ),
    "legacy constructor of a list": Kind(
        "EXP202",
        model("m = torch.Tensor([1, 2, 3, 4])  # <-\nreturn x * m"),
        ("torch.Tensor([1, 2, 3, 4])", "x.new_tensor([1, 2, 3, 4])"),
    ),
    "layer made in forward": Kind(
        "EXP202", model("f = nn.Linear(4, 4)  # <-\nreturn f(x)"), ("4, 4)", "4, 4, device=x.device)")
    ),
    "initial state of a recurrent net": Kind(
        "EXP202",
        model(
            "h = torch.zeros(1, 2, 3)  # <-\nreturn self.rnn(x[:, :, None], h)[0]",
            "self.rnn = nn.GRU(1, 3, batch_first=True)",
        ),
        ("2, 3)", "2, 3, device=x.device)"),
    ),
    "mask of attention": Kind(
        "EXP202",
        model(
            "m = torch.ones(4, 4).tril().bool()  # <-\n"
            "q = x[:, None, :, None]\nreturn nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=m)"
        ),
        ("4, 4)", "4, 4, device=x.device)"),
    ),
    "in place": Kind(
        "EXP202", model("m = torch.ones(4)  # <-\ny = x.clone()\ny.mul_(m)\nreturn y"), ("(4)", "(4, device=x.device)")
    ),
    "through a view": Kind(
        "EXP202",
        model("m = torch.ones(2, 4)  # <-\nv = m.t()[1:]\nreturn x[:, 1:] * v.t()"),
        ("(2, 4)", "(2, 4, device=x.device)"),
    ),
    "out=": Kind(
        "EXP202",
        model("o = torch.empty(2, 4)  # <-\ntorch.mul(x, 2, out=o)\nreturn o"),
        ("(2, 4)", "(2, 4, device=x.device)"),
    ),
    "attribute": Kind("EXP203", model("return x + self.t", "self.t = torch.ones(4)  # <-"), BUFFER),
    "attribute, set again": Kind(
        "EXP203",
        model("return x + self.t * 2", "self.t = None\nself.t = torch.ones(4)  # <-"),
        ("self.t = None\n        self.t = torch.ones(4)", "self.register_buffer('t', torch.ones(4))"),
    ),
    "attribute in a list": Kind(
        "EXP203",
        model("return x + self.ts[1]", "self.ts = [torch.ones(4), torch.ones(4)]  # <-"),
        ("[torch.ones(4), torch.ones(4)]", "nn.ParameterList([torch.ones(4), torch.ones(4)])"),
    ),
    "layers in a list": Kind(
        "EXP203",
        model("return self.fs[0](x)", "self.fs = [nn.Linear(4, 4)]  # <-"),
        ("[nn.Linear(4, 4)]", "nn.ModuleList([nn.Linear(4, 4)])"),
    ),
    "attribute of a submodule": Kind(
        "EXP203",
        model("return x + self.t", "self.t = torch.ones(4)  # <-", name="Sub")
        + model("return self.sub(x)", "self.sub = Sub()"),
        BUFFER,
    ),
    "attribute of a base class": Kind(
        "EXP203",
        model("return x", "self.t = torch.ones(4)  # <-", name="Base") + model("return x + self.t", base="Base"),
        BUFFER,
    ),
    "beside tied parameters": Kind(
        "EXP203",
        model(
            "return self.b(self.a(x)) + self.t",
            "self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)\n"
            "self.b.weight = self.a.weight\nself.t = torch.ones(4)  # <-",
        ),
        BUFFER,
    ),
    "cache written in forward": Kind(
        "EXP203",
        model("self.t = self.t.to(x)\nself.t[:] = x[0]\nreturn x + self.t", "self.t = torch.ones(4)  # <-"),
        BUFFER,
    ),
    "cache of the first call": Kind(
        "EXP203",
        model(
            "if self.t is None:\n    self.t = torch.ones(4, device=x.device)  # <-\nreturn x + self.t", "self.t = None"
        ),
        ("is None", "is None or self.t.device != x.device"),
    ),
    "cache by length": Kind(
        "EXP203",
        model(
            "n = x.shape[1]\nif n not in self.c:\n    self.c[n] = torch.ones(n, device=x.device)\nreturn x + self.c[n]",
            "self.c = {}  # <-",
        ),
        (
            "n = x.shape[1]\n        if n not in self.c:\n            self.c[n] = torch.ones(n",
            "n = (4, x.device)\n        if n not in self.c:\n            self.c[n] = torch.ones(4",
        ),
    ),
    "global cache by length": Kind(
        "EXP203",
        "C = {}  # <-\n" + model("if 4 not in C:\n    C[4] = torch.ones(4, device=x.device)\nreturn x + C[4]"),
        (
            "if 4 not in C:\n            C[4] = torch.ones(4, device=x.device)\n        return x + C[4]",
            "d = x.device\n        if d not in C:\n            C[d] = torch.ones(4, device=d)\n        return x + C[d]",
        ),
    ),
    "lru_cache by length": Kind(
        "EXP202",
        "import functools\n\n\n@functools.lru_cache\ndef table(n):\n"
        "    m = torch.arange(n)  # <-\n    return m.float().cos()\n\n\n" + model("return x + table(4)"),
        ("return x + table(4)", "return x + table(4).to(x.device)"),
    ),
    "lru_cache by object": Kind(
        "EXP203",
        "import functools\n\n\n@functools.lru_cache\ndef table(module):\n"
        "    m = torch.arange(4, device=module.f.weight.device)  # <-\n    return m.float().cos()\n\n\n"
        + model("return self.f(x) + table(self)", "self.f = nn.Linear(4, 4)"),
        ("+ table(self)", "+ table(self).to(x.device)"),
    ),
    "default argument": Kind(
        "EXP203",
        "class M(nn.Module):\n    def forward(self, x, o=torch.ones(4)):  # <-\n        return x + o\n",
        ("return x + o", "return x + o.to(x.device)"),
    ),
    "global": Kind("EXP203", "T = torch.ones(4)  # <-\n" + model("return x + T"), ("x + T", "x + T.to(x.device)")),
    "class attribute": Kind(
        "EXP203",
        "class M(nn.Module):\n    t = torch.ones(4)  # <-\n    def forward(self, x):\n        return x + self.t\n",
        ("x + self.t", "x + self.t.to(x.device)"),
    ),
    "autocast": Kind(
        "EXP206", model("with torch.autocast('cuda'):  # <-\n    return x @ x.t()"), ("'cuda'", "x.device.type")
    ),
    "cuda keyword": Kind("EXP201", model("return x + torch.ones(4, device='cuda')  # <-"), ("'cuda'", "x.device")),
    "cuda method": Kind("EXP201", model("m = torch.ones(4)\nreturn x + m.cuda()  # <-"), (".cuda()", ".to(x.device)")),
    "numpy": Kind("EXP401", model("return x + x.numpy().sum()  # <-"), (".numpy()", "")),
    "branch on the device": Kind(
        "EXP204",
        model("if x.device.type == 'cpu':  # <-\n    return x * 2\nreturn x"),
        ("x.device.type == 'cpu'", "True"),
    ),
    "branch on is_cuda": Kind(
        "EXP204", model("if x.is_cuda:  # <-\n    return x.half().float()\nreturn x * 2"), ("x.is_cuda", "False")
    ),
    "branch decided earlier": Kind(
        "EXP204",
        model(
            "d = x.device\non_mps = x.device.type == 'mps'  # <-\ny = x.to(d)\n"
            "f = torch.float32 if on_mps else torch.float64\n"
            "return x + torch.arange(4, dtype=f, device=y.device).float()"
        ),
        ("on_mps else torch.float64", "on_mps else torch.float32"),
    ),
    "branch at construction of a mask": Kind(
        "EXP204",
        model("low = -1.0 if x.device.type == 'cpu' else -2.0  # <-\nreturn x + torch.full_like(x, low)"),
        ("else -2.0", "else -1.0"),
    ),
    "branch on cuda being available": Kind(
        "EXP204",
        model("if torch.cuda.is_available():  # <-\n    return x * 3\nreturn x * 2"),
        ("torch.cuda.is_available()", "False"),
    ),
    "branch on any accelerator": Kind(
        "EXP204",
        model("n = torch.accelerator.device_count()  # <-\nreturn x * (n + 1)"),
        ("torch.accelerator.device_count()", "0"),
    ),
    "branch on the name of the type": Kind(
        "EXP204",
        model("if 'cuda' in x.type():  # <-\n    return x * 3\nreturn x * 2"),
        ("'cuda' in x.type()", "False"),
    ),
    "under capture only": Kind(
        "EXP201",
        model("if torch.compiler.is_exporting():\n    return x + torch.ones(4, device='cpu')  # <-\nreturn x + 1"),
        ("device='cpu'", "device=x.device"),
    ),
}

# What stays on the CPU and may.
PORTABLE = {
    "0-dim": model("return x * torch.tensor(2.0) + torch.full((), 1.0)"),
    "index": model("return x[:, torch.arange(3)]"),
    "index attribute": model("return x[:, self.i]", "self.i = torch.arange(3)"),
    "moved before use": model("return x + torch.ones(4).to(x)"),
    "moved attribute": model("return x + self.t.to(x.device)", "self.t = torch.ones(4)"),
    "number out of a tensor": model("n = torch.ones(4).sum().item()\nreturn x * n"),
    "autocast off": model("with torch.autocast('cuda', enabled=False):\n    return x * 2"),
    "copied over": model("y = x.clone()\ny.copy_(torch.ones(4))\nreturn y"),
    "device read": model("print(x.device, x.is_cuda)\nreturn x"),
    "synchronised": model("if x.is_cuda:\n    torch.cuda.synchronize()\nreturn x"),
    "cache of cuda emptied": model("if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nreturn x"),
    "accelerator awaited": model(
        "if torch.accelerator.is_available():\n    torch.accelerator.synchronize()\nreturn x * 2"
    ),
    "type asked": model("return x + torch.ones(2, 4, device=x.device).type(x.type())"),
    "moved where needed": model(
        "if self.t.device != x.device:\n    self.t = self.t.to(x.device)\nreturn x + self.t", "self.t = torch.ones(4)"
    ),
    "cache by device": model(
        "d = x.device\nif d not in self.c:\n    self.c[d] = torch.ones(4, device=d)\nreturn x + self.c[d]",
        "self.c = {}",
    ),
    "device of a parameter": model(
        "return x + torch.ones(4, device=next(self.parameters()).device)", "self.f = nn.Linear(4, 4)"
    ),
    "rotary embedding": model(
        "d = x.device.type if x.device.type != 'mps' else 'cpu'\n"
        "with torch.autocast(d, enabled=False):\n    return x.float() * 2"
    ),
    "fallback on mps": model(
        "if x.device.type == 'mps':\n    return torch.where(x > 0, x, torch.zeros_like(x))\nreturn x.clamp(min=0)"
    ),
    "another path where the CPU has none": model(
        "n = x[:, 0].long()\n"
        "n = n.float() if x.device.type == 'cpu' else n.int()\n"
        "return x + torch.histc(n, bins=4, min=0, max=3)"
    ),
    "moved by its own _apply": model("return x + self.t", "self.t = torch.ones(4)")
    + "\n    def _apply(self, fn, recurse=True):\n        super()._apply(fn, recurse)\n"
    "        self.t = fn(self.t)\n        return self\n",
    "name of the device asked": model(
        "if str(x.device) != 'cpu' and x.device.type not in ('cuda', 'mps', 'second'):\n"
        "    raise ValueError(x.device)\nreturn x * 2"
    ),
    "pending conjugate": model("return torch.fft.fft(x).conj().imag"),
    "noise": model("return x + torch.randn_like(x) + torch.rand(4, device=x.device)"),
}


def mended(kind):
    assert kind.mend[0] in kind.text
    return kind.text.replace(*kind.mend)


CONTEXTS = {
    "submodule": "self.inner(x)",
    "helper": "self.inner(x)",
    "cond": "torch.cond(x.sum() > -1e6, lambda t: self.inner(t), lambda t: self.inner(t) * 2, (x,))",
    "cond, other branch": "torch.cond(x.sum() > 1e6, lambda t: self.inner(t), lambda t: t.clone(), (x,))",
    "autocast": "self.autocast(x)",
}


def within(text, context, folder, name):
    """The source of a model that runs the model of this text in a context, and the file that holds the lines.

    A *helper* lies in a file of its own, so that the lines are not in the model's file.
    """
    if context == "plain":
        return text, name
    text = text.replace("class M(", "class Inner(")
    if context == "helper":
        (folder / f"{name}_helper.py").write_text(f"import torch\nfrom torch import nn\n{text}")
        sys.path.insert(0, str(folder))
        inner, holder = f"from {name}_helper import Inner\n\n\n", f"{name}_helper"
    else:
        inner, holder = text + "\n\n", name
    outer = model(f"return {CONTEXTS[context]}", "self.inner = Inner()")
    outer += (
        "\n    def autocast(self, x):\n        with torch.autocast(x.device.type, dtype=torch.bfloat16):\n"
        "            return self.inner(x)\n"
    )
    return inner + outer, holder


def load(text, folder, name):
    """The model case of a file with this text; the file is imported under its name."""
    path = folder / f"{name}.py"
    path.write_text(f"import torch\nfrom torch import nn\n{text}")
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return ModelCase(sys.modules[name].M, args=example, name=name)


def example():
    import torch

    return (torch.linspace(0.1, 1, 8).view(2, 4),)
