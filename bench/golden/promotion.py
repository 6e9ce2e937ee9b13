"""Writes tests/golden/result_type.txt: what torch.result_type gives for each pair of operands.

A dtype with a star is a tensor with an axis, without one a tensor of rank 0; 1 and 1.0 are numbers.
Usage: python bench/golden/promotion.py > tests/golden/result_type.txt
"""
import torch

DTYPES = {"bool": torch.bool, "u8": torch.uint8, "u16": torch.uint16, "i32": torch.int32,
          "i64": torch.int64, "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
          "f64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def operands():
    for name, dtype in DTYPES.items():
        yield name + "*", torch.zeros(1, dtype=dtype)
        yield name, torch.zeros((), dtype=dtype)


for a_name, a in operands():
    for b_name, b in [*operands(), ("1", 1), ("1.0", 1.0)]:
        try:
            result = NAMES[torch.result_type(a, b)]
        except RuntimeError:
            result = "error"
        print(a_name, b_name, result)
