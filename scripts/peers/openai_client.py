"""Calls a running `relax serve` with PyPI's `openai` client: models, whole answers, streams, errors; transcriptions of a model of
speech, and images of a model that reads them.

    python3 scripts/peers/openai_client.py http://127.0.0.1:8080/v1 MODEL [FILE.wav | FILE.png]
"""

import base64
import sys

import openai


def refuses(kind: type[Exception], call) -> None:
    try:
        call()
    except kind as error:
        print("refused:", error)
    else:
        raise AssertionError("it is not refused")


def transcribe(client: openai.OpenAI, model: str, path: str) -> None:
    with open(path, "rb") as file:
        sound = file.read()

    def ask(data: bytes, **more):
        return client.audio.transcriptions.create(model=model, file=("a.wav", data), **more)

    whole = ask(sound).text
    assert ask(sound, response_format="text", temperature=0) == whole + "\n"
    refuses(openai.BadRequestError, lambda: ask(sound[:20]))
    refuses(openai.BadRequestError, lambda: ask(sound, response_format="srt"))
    refuses(openai.NotFoundError, lambda: client.audio.transcriptions.create(model="x", file=("a.wav", sound)))
    print("all is well:", repr(whole))


def look(client: openai.OpenAI, model: str, path: str) -> None:
    with open(path, "rb") as file:
        url = "data:image/png;base64," + base64.b64encode(file.read()).decode()

    def ask(url: str) -> str:
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "DBE"}]
        messages = [{"role": "user", "content": parts}]
        chat = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0)
        return chat.choices[0].message.content

    text = ask(url)
    refuses(openai.BadRequestError, lambda: ask("https://example.com/a.png"))
    print("all is well:", repr(text))


def main(url: str, model: str, path: str = "") -> None:
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    assert model in [one.id for one in client.models.list()]
    ask = {"model": model, "max_tokens": 8, "temperature": 0}

    if path.endswith(".wav"):
        return transcribe(client, model, path)
    if path:
        return look(client, model, path)

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
        refuses(kind, lambda: client.completions.create(prompt="DBE", **{**ask, **wrong}))
    print("all is well:", repr(text))


main(*sys.argv[1:])
