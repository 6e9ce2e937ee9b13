"""Weights and batches that every implementation can make bit for bit, without a library.

mix(i, k) hashes an element index i and a stream number k to 32 bits:
    x = (i + 1) * 0x9E3779B9  xor  (k + 1) * 0x85EBCA6B          (modulo 2^32)
    x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16
u = (x >> 8) / 2^24 lies in [0, 1) and is exact in float32.
Parameter number k, element i in row-major order:
    two or more dims       (2u - 1) * 0.035
    layer-norm weight      1 + (2u - 1) * 0.1
    bias                   (2u - 1) * 0.02
Each product and sum is rounded to float32 (no fused multiply-add).
"""

import numpy as np

BATCH_STREAM = 999
M32 = np.uint64(0xFFFFFFFF)


def mix(indices, stream):
    x = (np.asarray(indices, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B9) & M32
    x ^= np.uint64((stream + 1) * 0x85EBCA6B & 0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = x * np.uint64(0x7FEB352D) & M32
    x ^= x >> np.uint64(15)
    x = x * np.uint64(0x846CA68B) & M32
    x ^= x >> np.uint64(16)
    return x


def parameter(name, shape, number):
    u = (mix(np.arange(int(np.prod(shape))), number) >> np.uint64(8)).astype(np.float32)
    centred = u * np.float32(2.0**-23) - np.float32(1)  # 2u - 1, exact
    if len(shape) >= 2:
        values = centred * np.float32(0.035)
    elif name.endswith("bias"):
        values = centred * np.float32(0.02)
    else:
        values = np.float32(1) + centred * np.float32(0.1)
    return values.reshape(shape)


def offsets(step, batch, length, window):
    """Where a step's rows begin in a text of `length` bytes; a row uses window + 1 bytes."""
    rows = np.arange(step * batch, (step + 1) * batch)
    return (mix(rows, BATCH_STREAM) % np.uint64(length - window - 1)).astype(np.int64)
