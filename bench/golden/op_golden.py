"""Writes tests/golden/ops.json: small inputs of core ATen ops with PyTorch's outputs and gradients.

Run with a Python that has torch and numpy: python bench/golden/op_golden.py. A case is
    {op, attributes, inputs: [tensor], outputs: [tensor],
     upstream: [tensor], gradients: [tensor or null]}
    tensor = {dtype: "f32" | "i64" | "bool", shape, data (row-major)}
upstream[i] is the gradient of a scalar with respect to outputs[i]; gradients[i] follows for
inputs[i], null where an input has none. All is float32 arithmetic. Attributes carry ATen's names;
defaults are written out.
"""

import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}
random = np.random.default_rng(20260101)


def normal(*shape, scale=1.0):
    return torch.tensor(random.standard_normal(shape) * scale, dtype=torch.float32)


def positive(*shape):
    return torch.tensor(random.uniform(0.1, 4.0, shape), dtype=torch.float32)


def integers(high, *shape):
    return torch.from_numpy(random.integers(0, high, shape))


def grid(*values):
    return torch.tensor(values, dtype=torch.float32)


# Zero, tiny, both tails and beyond them, where a formula and its gradient go wrong first.
EDGES = grid(
    0.0,
    -0.0,
    1e-30,
    1e-4,
    -1e-4,
    0.5,
    -0.5,
    1.0,
    -1.0,
    3.0,
    -3.0,
    6.0,
    -6.0,
    12.0,
    -12.0,
    80.0,
    -80.0,
)
TIES = grid([1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-1.0, -2.0, -1.0, -3.0])


def layer_norm(x, weight, bias, normalized_shape, eps):
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def attention(q, k, v, is_causal):
    """Causal: the last query sees all keys."""
    queries, keys = q.shape[2], k.shape[2]
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if is_causal else None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def split(x, split_size, dim):
    return torch.split(x, split_size, dim)


def cat(*tensors, dim):
    return torch.cat(tensors, dim)


def pointwise_cases():
    both = torch.cat([EDGES, normal(15)])
    for approximate in ("none", "tanh"):
        yield "gelu", F.gelu, [both], {"approximate": approximate}
    for op in (
        torch.sigmoid,
        F.silu,
        torch.tanh,
        torch.erf,
        torch.relu,
        torch.abs,
        torch.neg,
        torch.sin,
        torch.cos,
    ):
        yield op.__name__, op, [both], {}
    yield "exp", torch.exp, [both], {}
    wide = torch.cat([grid(1e-30, 1e-6, 1.0, 1e6, 1e30), positive(11)])
    for op in (torch.log, torch.sqrt, torch.rsqrt, torch.reciprocal):
        # The gradient of 1e-30 leaves float32 for all but log.
        yield op.__name__, op, [wide if op is torch.log else wide[1:]], {}
    for exponent in (2.0, 3.0, -1.0, 0.5):
        yield "pow", torch.pow, [positive(3, 4)], {"exponent": exponent}
    yield "clamp", torch.clamp, [grid(-2.0, -1.0, 0.0, 1.0, 2.0)], {"min": -1.0, "max": 1.0}
    for op in (torch.add, torch.sub, torch.mul, torch.div):
        for shapes in (((2, 3), (2, 3)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((5,), ())):
            yield op.__name__, op, [normal(*shapes[0]), positive(*shapes[1])], {}
    for op in (torch.maximum, torch.minimum):
        yield op.__name__, op, [
            TIES,
            grid([3.0, 3.0, 1.0, 2.0], [4.0, 5.0, 6.0, 5.0], [0.0, -2.0, -2.0, -3.0]),
        ], {}
    yield "where", torch.where, [normal(3, 4) > 0, normal(3, 4), normal(3, 4)], {}
    yield "where", torch.where, [normal(3, 1) > 0, normal(1, 4), normal()], {}
    for op in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        yield op.__name__, op, [TIES, grid(3.0, 5.0, -1.0, 2.0)], {}


def reduction_cases():
    for dim in ([0], [1], [0, 2], [-1]):
        for keepdim in (False, True):
            for op in (torch.sum, torch.mean):
                yield op.__name__, op, [normal(2, 3, 4)], {"dim": dim, "keepdim": keepdim}
    for op in (torch.amax, torch.amin):
        yield op.__name__, op, [normal(2, 3, 4)], {"dim": [1], "keepdim": True}
        yield op.__name__, op, [TIES], {"dim": [1], "keepdim": False}
        yield op.__name__, op, [TIES], {"dim": [0, 1], "keepdim": False}
    for correction in (0, 1):
        yield "var", torch.var, [normal(3, 5)], {
            "dim": [1],
            "correction": correction,
            "keepdim": False,
        }
    yield "var", torch.var, [normal(3, 5) + 1000], {"dim": [0], "correction": 1, "keepdim": True}
    for op in (torch.argmax, torch.argmin):
        yield op.__name__, op, [TIES], {"dim": 1, "keepdim": False}
    yield "cumsum", torch.cumsum, [normal(3, 4)], {"dim": 1}


def row_cases():
    for op in (torch.softmax, torch.log_softmax):
        yield op.__name__, op, [normal(2, 3, 4)], {"dim": -1}
        yield op.__name__, op, [normal(2, 3, 4)], {"dim": 1}
        yield op.__name__, op, [
            grid([1000.0, 999.0, -1000.0], [-1e30, 0.0, -1e30], [5.0, 5.0, 5.0])
        ], {"dim": 1}
    yield "logsumexp", torch.logsumexp, [normal(3, 4, scale=50)], {"dim": [1], "keepdim": False}
    for shape in ((2, 8), (2, 3, 5)):
        d = shape[-1]
        yield "layer_norm", layer_norm, [normal(*shape), normal(d), normal(d)], {
            "normalized_shape": [d],
            "eps": 1e-5,
        }
    constant = torch.full((2, 6), 7.0)
    yield "layer_norm", layer_norm, [constant, normal(6), normal(6)], {
        "normalized_shape": [6],
        "eps": 1e-5,
    }
    yield "layer_norm", layer_norm, [normal(2, 6) + 300, normal(6), normal(6)], {
        "normalized_shape": [6],
        "eps": 1e-5,
    }
    yield "cross_entropy", F.cross_entropy, [normal(5, 7), integers(7, 5)], {"reduction": "mean"}
    yield "cross_entropy", F.cross_entropy, [normal(3, 4, scale=200), integers(4, 3)], {
        "reduction": "mean"
    }


def matrix_cases():
    yield "mm", torch.mm, [normal(3, 5), normal(5, 4)], {}
    yield "bmm", torch.bmm, [normal(2, 3, 5), normal(2, 5, 4)], {}
    yield "addmm", torch.addmm, [normal(4), normal(3, 5), normal(5, 4)], {}
    for a, b in (
        ((2, 3, 5), (5, 4)),
        ((2, 2, 3, 5), (2, 2, 5, 4)),
        ((2, 1, 3, 5), (3, 5, 4)),
        ((5,), (5, 4)),
        ((3, 5), (5,)),
    ):
        yield "matmul", torch.matmul, [normal(*a), normal(*b)], {}
    for q, kv, is_causal in (
        ((1, 2, 4, 3), (1, 2, 4, 3), False),
        ((1, 2, 4, 3), (1, 2, 4, 3), True),
        ((2, 4, 3, 2), (2, 2, 5, 2), True),
        ((1, 3, 5, 2), (1, 1, 2, 2), False),
    ):
        qkv = [normal(*q), normal(*kv), normal(*kv)]
        yield "scaled_dot_product_attention", attention, qkv, {"is_causal": is_causal}


def layout_cases():
    yield "embedding", lambda weight, ids: F.embedding(ids, weight), [
        normal(5, 3),
        torch.tensor([[1, 4, 1], [0, 1, 4]]),
    ], {}
    yield "index_select", lambda x, ids, dim: torch.index_select(x, dim, ids), [
        normal(4, 3),
        torch.tensor([2, 0, 2]),
    ], {"dim": 0}
    yield "gather", lambda x, ids, dim: torch.gather(x, dim, ids), [
        normal(3, 4),
        torch.tensor([[0, 0], [3, 1], [2, 2]]),
    ], {"dim": 1}
    yield "permute", torch.permute, [normal(2, 3, 4)], {"dims": [2, 0, 1]}
    yield "transpose", torch.transpose, [normal(2, 3, 4)], {"dim0": -1, "dim1": -2}
    yield "reshape", torch.reshape, [normal(2, 6)], {"shape": [3, -1]}
    yield "expand", torch.Tensor.expand, [normal(3, 1)], {"size": [2, 3, 4]}
    yield "split", split, [normal(2, 7)], {"split_size": 3, "dim": 1}
    yield "slice", lambda x, dim, start, end, step: x[:, start:end:step], [normal(2, 7)], {
        "dim": 1,
        "start": 1,
        "end": 6,
        "step": 2,
    }
    yield "cat", cat, [normal(2, 3), normal(2, 1), normal(2, 2)], {"dim": 1}
    yield "tril", torch.tril, [normal(3, 4)], {"diagonal": 0}


def call(function, inputs, attributes):
    # exponent, dims and sizes are positional in some of torch's signatures.
    positional = [k for k in ("exponent", "dims", "shape", "size") if k in attributes]
    keyword = {k: v for k, v in attributes.items() if k not in positional}
    result = function(*inputs, *(attributes[k] for k in positional), **keyword)
    return list(result) if isinstance(result, tuple) else [result]


def tensor(value):
    if value is None:
        return None
    if not torch.isfinite(value).all():
        raise ValueError("a value that JSON cannot hold")
    data = value.contiguous().flatten().tolist()
    if value.dtype == torch.float32:
        data = [float(f"{x:.9g}") for x in data]
    return {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data": data}


def run(op, function, inputs, attributes):
    leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs]
    outputs = call(function, leaves, attributes)
    case = {
        "op": op,
        "attributes": attributes,
        "inputs": [tensor(t) for t in inputs],
        "outputs": [tensor(t.detach()) for t in outputs],
    }
    smooth = all(t.is_floating_point() for t in outputs)
    upstream = [normal(*t.shape) for t in outputs] if smooth else []
    gradients = [None] * len(leaves)
    if smooth:
        torch.autograd.backward(outputs, upstream)
        gradients = [t.grad if t.is_floating_point() else None for t in leaves]
    case["upstream"] = [tensor(t) for t in upstream]
    case["gradients"] = [tensor(t) for t in gradients]
    return case


def main():
    cases = []
    for group in (pointwise_cases, reduction_cases, row_cases, matrix_cases, layout_cases):
        for case in group():
            try:
                cases.append(run(*case))
            except ValueError as error:
                raise SystemExit(f"{case[0]} {case[3]}: {error}")
    path = GOLDEN / "ops.json"
    path.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(
        f"{len(cases)} cases of {len({c['op'] for c in cases})} ops, "
        f"{path.stat().st_size} bytes, torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
