"""Writes tests/golden/resnet_tiny.json, a training run of a small ResNet in PyTorch that ours must
repeat, and resnet_names.txt, torchvision's names and shapes of ResNet-18 and ResNet-50.

Run with a Python that has torch, torchvision and numpy: python bench/golden/resnet_golden.py.
Weights and images come from deterministic.py. Weights are [height, width, in, out] and images
[batch, height, width, channels] in the file; here both are permuted to PyTorch's order.
"""

import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

import deterministic

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
IMAGE_STREAM = 1000
CONV_SCALE = 32  # small weights before a normalisation learn so fast that rounding decides
NUM_BATCHES = 4  # that the run goes through again and again
CONFIG = {
    "blocks": [1, 2],
    "width": 8,
    "channels": 3,
    "num_classes": 5,
    "image_size": 32,
    "batch_size": 8,
    "num_steps": 50,
}
OPTIMIZER = {"learning_rate": 0.01, "momentum": 0.9, "weight_decay": 1e-4}  # of two or more dims


class Model(torchvision.models.ResNet):
    """Torchvision's own class with other sizes: its forward wants four stages, so it has its own."""

    def __init__(self, bottleneck):
        block = torchvision.models.resnet.Bottleneck if bottleneck else torchvision.models.resnet.BasicBlock
        super().__init__(block, [1, 1, 1, 1], num_classes=CONFIG["num_classes"])
        self.inplanes = width = CONFIG["width"]
        self.conv1 = torch.nn.Conv2d(CONFIG["channels"], width, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.layer1 = self._make_layer(block, width, CONFIG["blocks"][0])
        self.layer2 = self._make_layer(block, 2 * width, CONFIG["blocks"][1], stride=2)
        del self.layer3, self.layer4
        self.fc = torch.nn.Linear(2 * width * block.expansion, CONFIG["num_classes"])

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def shape_of(parameter):
    """Ours of PyTorch's."""
    axes = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}[parameter.dim()]
    return [parameter.shape[i] for i in axes]


def set_parameters(model):
    for number, (name, parameter) in enumerate(model.named_parameters()):
        shape = shape_of(parameter)
        values = torch.from_numpy(deterministic.parameter(name, shape, number))
        if parameter.dim() == 4:
            values = values * CONV_SCALE
        back = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[parameter.dim()]
        with torch.no_grad():
            parameter.copy_(values.permute(back))


def batch(step, dtype):
    c = CONFIG
    shape = (c["batch_size"], c["image_size"], c["image_size"], c["channels"])
    stream = IMAGE_STREAM + step % NUM_BATCHES
    u = (deterministic.mix(np.arange(int(np.prod(shape))), stream) >> np.uint64(8)).astype(np.float32)
    images = torch.from_numpy((u * np.float32(2.0**-23) - np.float32(1)).reshape(shape))
    rows = np.arange(c["batch_size"]) + (step % NUM_BATCHES) * c["batch_size"]
    labels = deterministic.mix(rows, deterministic.BATCH_STREAM) % np.uint64(c["num_classes"])
    return images.permute(0, 3, 1, 2).to(dtype), torch.from_numpy(labels.astype(np.int64))


def norms(named):
    return {n: t.detach().double().norm().item() for n, t in named if t.is_floating_point()}


def train(bottleneck, dtype):
    model = Model(bottleneck).to(dtype).train()
    set_parameters(model)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2]},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(
        groups,
        lr=OPTIMIZER["learning_rate"],
        momentum=OPTIMIZER["momentum"],
        weight_decay=OPTIMIZER["weight_decay"],
        foreach=False,
    )
    out = {"losses": []}
    for step in range(CONFIG["num_steps"]):
        images, labels = batch(step, dtype)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            out["gradient_norms"] = norms((n, p.grad) for n, p in model.named_parameters())
        optimizer.step()
        out["losses"].append(loss.item())
    out["parameters"] = [{"name": n, "shape": shape_of(p)} for n, p in model.named_parameters()]
    out["parameter_norms"] = norms(model.named_parameters())
    out["buffer_norms"] = norms(model.named_buffers())
    model.eval()
    with torch.no_grad():
        images, labels = batch(0, dtype)
        out["evaluation_loss"] = F.cross_entropy(model(images), labels).item()
    return out


def shorten(value):
    """Nine significant digits tell every float32 apart."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {k: shorten(v) for k, v in value.items()}
    return [shorten(v) for v in value] if isinstance(value, list) else value


def save_names():
    lines = []
    for name in ("resnet18", "resnet50"):
        for key, value in getattr(torchvision.models, name)().state_dict().items():
            if not key.endswith("num_batches_tracked"):
                lines.append(f"{name} {key} {','.join(map(str, value.shape))}\n")
    (GOLDEN / "resnet_names.txt").write_text("".join(lines))


def main():
    torch.set_num_threads(2)
    save_names()
    record = {
        "what": "bench/golden/resnet_golden.py wrote this: float32 training in PyTorch",
        "torch_version": torch.__version__,
        "config": CONFIG,
        "optimizer": OPTIMIZER,
    }
    for name, bottleneck in (("basic", False), ("bottleneck", True)):
        single, double = train(bottleneck, torch.float32), train(bottleneck, torch.float64)
        drift = max(abs(a - b) / b for a, b in zip(single["losses"], double["losses"]))
        print(f"{name}: {single['losses'][0]:.4f} -> {single['losses'][-1]:.4f}, drift {drift:.1e}")
        record[name] = {**single, "largest_relative_drift_from_float64": drift}
    body = ",\n".join(f" {json.dumps(k)}: {json.dumps(shorten(v))}" for k, v in record.items())
    (GOLDEN / "resnet_tiny.json").write_text("{\n" + body + "\n}\n")


if __name__ == "__main__":
    main()
