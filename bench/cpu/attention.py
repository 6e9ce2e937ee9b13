#!/usr/bin/env python3
"""Attention, forward and backward, beside PyTorch's F.scaled_dot_product_attention and explicit
form: rounds interleaved in one process, the answers compared with float64.

Usage: bench/cpu/attention.py LIBRARY [--threads N] [--rounds N]
    LIBRARY: build/src/libbench_cpu_attention.so (ninja bench_cpu_attention)
"""

import argparse
import ctypes
import statistics
import time

import torch
import torch.nn.functional as F

# name, batch, heads, kv_heads, positions, width, dtype
SHAPES = [
    ("gpt2-124m", 4, 12, 12, 256, 64, torch.float32),
    ("gpt-nano", 16, 4, 4, 128, 32, torch.float32),
    ("llama gqa", 1, 16, 4, 512, 128, torch.float32),
    ("gpt2-124m", 4, 12, 12, 256, 64, torch.bfloat16),
]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def make_inputs(batch, heads, kv_heads, positions, width, dtype):
    """q, k, v as views of one packed product; the gradient as a view of joined heads."""
    torch.manual_seed(1)
    packed = torch.randn(batch, positions, heads + 2 * kv_heads, width).to(dtype)
    q, k, v = (t.transpose(1, 2) for t in packed.split([heads, kv_heads, kv_heads], dim=2))
    gradient = torch.randn(batch, positions, heads, width).to(dtype).transpose(1, 2)
    return [q, k, v], gradient


class Ours:
    def __init__(self, library, qkv, gradient):
        q, k, _ = qkv
        batch, heads, positions, width = q.shape
        self.library = library
        packed = torch.empty(batch, positions, heads + 2 * k.shape[1], width, dtype=q.dtype)
        sizes = [heads, k.shape[1], k.shape[1]]
        self.gradients = [t.transpose(1, 2) for t in packed.split(sizes, dim=2)]
        self.output = torch.empty(batch, positions, heads, width, dtype=q.dtype).transpose(1, 2)
        self.logsumexp = torch.empty(batch, heads, positions)
        self.kept = [*qkv, self.output, self.logsumexp, gradient, *self.gradients]
        strides = [s for t in self.kept for s in t.stride()[:3]]
        self.handle = ctypes.c_void_p(
            library.attention_bind(
                (ctypes.c_int64 * 6)(batch, heads, k.shape[1], positions, k.shape[2], width),
                True,
                q.dtype == torch.bfloat16,
                ctypes.c_double(width**-0.5),
                (ctypes.c_void_p * 9)(*(t.data_ptr() for t in self.kept)),
                (ctypes.c_int64 * 27)(*strides),
            )
        )

    def forward(self):
        self.library.attention_run(self.handle, False)
        return self.output

    def backward(self):
        self.library.attention_run(self.handle, True)
        return self.gradients


class Torch:
    def __init__(self, function, qkv, gradient):
        self.function = function
        self.leaves = [t.detach().requires_grad_() for t in qkv]
        self.gradient = gradient

    def forward(self):
        self.output = self.function(*self.leaves)
        return self.output

    def backward(self):
        return torch.autograd.grad(self.output, self.leaves, self.gradient)


def sdpa(q, k, v):
    shares = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shares)


def explicit(q, k, v):
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, dim=1) if group > 1 else t for t in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def largest_difference(given, expected):
    return max(
        ((a.float() - b.float()).abs() / (1 + b.float().abs())).max().item()
        for a, b in zip(given, expected)
    )


def time_of(function):
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    library = ctypes.CDLL(options.library)
    library.attention_bind.restype = ctypes.c_void_p
    print(f"{options.threads} threads, medians of {options.rounds} rounds, ms (GFLOP/s)")
    for name, *shape, dtype in SHAPES:
        qkv, gradient = make_inputs(*shape, dtype)
        forms = {
            "ours": Ours(library, qkv, gradient),
            "sdpa": Torch(sdpa, qkv, gradient),
            "explicit": Torch(explicit, qkv, gradient),
        }
        exact = Torch(explicit, [t.double() for t in qkv], gradient.double())
        expected = [exact.forward(), *exact.backward()]
        times = {form: ([], []) for form in forms}
        for _ in range(options.rounds):
            for form, attention in forms.items():
                times[form][0].append(time_of(attention.forward))
                times[form][1].append(time_of(attention.backward))
        batch, heads, _, positions, width = shape
        flops = 4 * batch * heads * positions * (positions + 1) / 2 * width
        print(
            f"{name} {str(dtype)[6:]} batch {batch} heads {heads}/{shape[2]} of {width}, "
            f"{positions} positions"
        )
        for form, attention in forms.items():
            given = [attention.forward(), *attention.backward()]
            error = largest_difference(given, expected)
            forward, backward = (statistics.median(t) for t in times[form])
            print(
                f"  {form:9} forward {forward:7.3f} ({flops / forward / 1e6:4.0f})"
                f"   backward {backward:7.3f} ({2.5 * flops / backward / 1e6:4.0f})"
                f"   both {forward + backward:7.3f}   error {error:.1e}"
                f"{'' if error < TOLERANCE[dtype] else '  WRONG'}"
            )


if __name__ == "__main__":
    main()
