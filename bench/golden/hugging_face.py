"""Writes tests/golden/hf_*.safetensors and hf_logits.json: tiny models of the transformers library,
saved by it, and their logits; and python.safetensors, a file of many dtypes.

Run with a Python that has torch, transformers and safetensors: python bench/golden/hugging_face.py.
Weights come from a fixed seed; the files are small and checked in.
"""

import json
import pathlib
import shutil
import tempfile

import safetensors.torch
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 9, 3]]


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2, attn_implementation="eager"
    )
    return transformers.GPT2LMHeadModel(config)


def llama(is_tied):
    config = transformers.LlamaConfig(
        vocab_size=11,
        hidden_size=16,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=is_tied,
        attn_implementation="eager",
    )
    return transformers.LlamaForCausalLM(config)


def save_dtypes():
    numbers = torch.arange(1, 7).reshape(2, 3)
    dtypes = {
        "f64": torch.float64,
        "f32": torch.float32,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "i64": torch.int64,
        "i32": torch.int32,
        "u8": torch.uint8,
    }
    tensors = {name: numbers.to(dtype) for name, dtype in dtypes.items()}
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    metadata = {"format": "pt", "note": "grüße"}
    safetensors.torch.save_file(tensors, GOLDEN / "python.safetensors", metadata)


def main():
    save_dtypes()
    torch.manual_seed(1)
    record = {
        "what": "bench/golden/hugging_face.py wrote this",
        "transformers_version": transformers.__version__,
        "tokens": TOKENS,
        "logits": {},
    }
    models = {"gpt2": gpt2(), "llama": llama(False), "llama_tied": llama(True)}
    for name, model in models.items():
        model.eval()
        with torch.no_grad():
            for parameter in model.parameters():  # so that no two parts are equal
                parameter.add_(0.2 * torch.randn_like(parameter))
            logits = model(torch.tensor(TOKENS)).logits
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            shutil.copy(pathlib.Path(folder) / "model.safetensors", GOLDEN / f"hf_{name}.safetensors")
        record["logits"][name] = [float(f"{x:.9g}") for x in logits.flatten().tolist()]
    body = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in record.items())
    (GOLDEN / "hf_logits.json").write_text("{\n" + body + "\n}\n")


if __name__ == "__main__":
    main()
