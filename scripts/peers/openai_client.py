"""Calls a running `relax serve` with PyPI's `openai` client: models, whole answers, streams, errors.

    python3 scripts/peers/openai_client.py http://127.0.0.1:8080/v1 MODEL
"""

import sys

import openai


def main(url: str, model: str) -> None:
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    assert model in [one.id for one in client.models.list()]
    ask = {"model": model, "max_tokens": 8, "temperature": 0}

    whole = client.completions.create(prompt="DBE", logprobs=1, **ask)
    parts = list(client.completions.create(prompt="DBE", stream=True, **ask))
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text
    assert len(whole.choices[0].logprobs.tokens) == whole.usage.completion_tokens

    messages = [{"role": "user", "content": "DBE"}]
    chat = client.chat.completions.create(messages=messages, logprobs=True, top_logprobs=2, n=2, **ask)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    parts = list(client.chat.completions.create(messages=messages, **options, **ask))
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == chat.choices[0].message.content, (text, chat)
    assert parts[-1].usage.completion_tokens == chat.usage.completion_tokens // 2
    assert chat.choices[0].finish_reason in ("stop", "length")

    for wrong, kind in [({"temperature": -1}, openai.BadRequestError), ({"model": "x"}, openai.NotFoundError)]:
        try:
            client.completions.create(prompt="DBE", **{**ask, **wrong})
        except kind as error:
            print("refused:", error)
        else:
            raise AssertionError(f"{wrong} is not refused")
    print("all is well:", repr(text))


main(*sys.argv[1:])
