"""`--generator` arguments."""

import pytest

from dmc_optim.errors import ConfigError
from dmc_optim.llm.spec import OpenAISpec, RecordedSpec, VllmSpec, parse_generator_spec

GOOD = {
    "recorded:a/b.jsonl": RecordedSpec("a/b.jsonl"),
    "recorded:gs://bucket/x.jsonl": RecordedSpec("gs://bucket/x.jsonl"),
    "vllm:Qwen/Qwen3-Coder": VllmSpec("Qwen/Qwen3-Coder"),
    "openai:http://h:8000#m": OpenAISpec(("http://h:8000/v1",), "m"),
    "openai:http://h:1,https://i/llm/v2#a/b:c": OpenAISpec(("http://h:1/v1", "https://i/llm/v2"), "a/b:c"),
}
BAD = {
    "": "not one of",
    "gpt-4": "not one of recorded:FILE.jsonl, openai:URL#MODEL or vllm:MODEL",
    "Openai:http://h#m": "not one of",
    "recorded:": "nothing after 'recorded'",
    "vllm: ": "nothing after 'vllm'",
    "openai:http://h:8000": "no model name; write openai:http://h:8000#MODEL",
    "openai:http://h:8000#": "no model name",
    "openai:h:8000#m": "not an http address",
    "openai:http://h,,#m": "not an http address",
}


@pytest.mark.parametrize("text", GOOD)
def test_specifications_are_read(text):
    assert parse_generator_spec(text) == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_mistakes_say_what_to_write(text):
    with pytest.raises(ConfigError) as caught:
        parse_generator_spec(text)
    assert BAD[text] in str(caught.value) and "\n" not in str(caught.value)
