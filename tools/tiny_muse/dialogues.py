"""Whole conversations: one turn, two turns, or one with a tool call, at each reasoning strength."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from . import code_tasks, small_tasks, stories
from .framing import STRENGTHS, render
from .stories import Task

# Sentences of reasoning per strength; a task with fewer thoughts uses all it has.
_THOUGHTS = {"low": 1, "medium": 2, "high": 4, "xhigh": 7}
_STRENGTH_WEIGHTS = (2, 2, 5, 2)
_CITIES = (
    "Berlin", "Paris", "Oslo", "Rome", "Madrid", "Vienna", "Lisbon", "Prague", "Dublin", "Athens",
    "Tokyo", "Lima", "Cairo", "Sydney", "Boston", "Delhi",
)  # fmt: skip


@dataclass
class Dialogue:
    """Messages in the chat-template form, with the arguments the template needs."""

    messages: list[dict[str, Any]]
    strength: str = "high"
    tools: list[dict[str, Any]] = field(default_factory=list)

    def text(self) -> str:
        return render(self.messages, strength=self.strength, tools=self.tools or None)

    def questions(self) -> list[str]:
        return [m["content"] for m in self.messages if m["role"] == "user"]


def _assistant(task: Task, strength: str) -> dict[str, Any]:
    thoughts = task.thoughts[: _THOUGHTS[strength]]
    return {"role": "assistant", "reasoning_content": " ".join(thoughts), "content": task.answer}


def _one_task(rng: Random) -> Task:
    roll = rng.random()
    if roll < 0.46:
        return stories.story(rng)
    if roll < 0.58:
        return stories.explanation(rng)
    if roll < 0.71:
        return code_tasks.write_function(rng)
    if roll < 0.82:
        return code_tasks.explain_function(rng)
    return rng.choice(small_tasks.SMALL)(rng)


_TOOLS = {
    "weather.get": ("Get the weather of a city.", {"city": "string"}),
    "calculator.add": ("Add two numbers.", {"a": "integer", "b": "integer"}),
    "calculator.multiply": ("Multiply two numbers.", {"a": "integer", "b": "integer"}),
    "clock.now": ("Get the time in a city.", {"city": "string"}),
    "notes.save": ("Save a note.", {"title": "string", "text": "string"}),
}


def _tool(name: str) -> dict[str, Any]:
    description, fields = _TOOLS[name]
    properties = {key: {"type": kind} for key, kind in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _tool_case(name: str, rng: Random) -> tuple[str, dict[str, Any], str, str]:
    """Question, arguments, tool result, final answer."""
    city = rng.choice(_CITIES)
    if name == "weather.get":
        degrees, sky = rng.randint(-5, 35), rng.choice(stories.WEATHERS)
        question = rng.choice(
            (f"What is the weather in {city}?", f"How warm is it in {city} today?")
        )
        return (
            question,
            {"city": city},
            f"{sky}, {degrees} degrees",
            f"In {city} it is {sky} and {degrees} degrees.",
        )
    if name == "clock.now":
        time = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
        question = rng.choice((f"What time is it in {city}?", f"Tell me the time in {city}."))
        return question, {"city": city}, time, f"It is {time} in {city}."
    if name == "notes.save":
        task = rng.choice(("call", "visit", "write to", "meet")) + " " + rng.choice(stories.NAMES)
        question = rng.choice(
            (f"Save a note that I have to {task}.", f"Please remember that I want to {task}.")
        )
        return question, {"title": "to do", "text": task}, "saved", f"I saved the note: {task}."
    a, b = rng.randint(100, 999), rng.randint(100, 999)
    if name == "calculator.add":
        return (
            f"What is {a} + {b}? Use the calculator.",
            {"a": a, "b": b},
            str(a + b),
            f"{a} + {b} = {a + b}.",
        )
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    return (
        f"What is {a} * {b}? Use the calculator.",
        {"a": a, "b": b},
        str(a * b),
        f"{a} * {b} = {a * b}.",
    )


def _tool_dialogue(rng: Random) -> Dialogue:
    names = rng.sample(list(_TOOLS), rng.randint(1, 2))
    strength = rng.choices(STRENGTHS, _STRENGTH_WEIGHTS)[0]
    question, arguments, result, answer = _tool_case(names[0], rng)
    offered = sorted(names) if rng.random() < 0.5 else names
    thoughts = [
        f"I can use {names[0]} for this.",
        f"The arguments are {', '.join(f'{k} = {v}' for k, v in arguments.items())}.",
        "The tool gives a better answer than my memory.",
        "I call it once and wait for the result.",
    ]
    call = {"type": "function", "function": {"name": names[0], "arguments": arguments}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": question},
        {
            "role": "assistant",
            "reasoning_content": " ".join(thoughts[: _THOUGHTS[strength]]),
            "content": "",
            "tool_calls": [call],
        },
        {"role": "tool", "name": names[0], "content": result},
        {
            "role": "assistant",
            "reasoning_content": f"The tool says {result}.",
            "content": answer,
        },
    ]
    return Dialogue(messages, strength, [_tool(name) for name in offered])


_THANKS = (
    ("Thank you!", "You are welcome.", "The user says thank you."),
    ("Thanks, that helps.", "I am glad that it helps.", "The user is happy with the answer."),
    ("Great, goodbye!", "Goodbye, and have a nice day!", "The user wants to leave."),
)
_SYSTEMS = (
    "You are a helpful AI assistant.",
    "You are a friendly teacher.",
    "Answer in simple words.",
)


def dialogue(rng: Random) -> Dialogue:
    """One random conversation."""
    if rng.random() < 0.07:
        return _tool_dialogue(rng)
    strength = rng.choices(STRENGTHS, _STRENGTH_WEIGHTS)[0]
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.1:
        messages.append({"role": "system", "content": rng.choice(_SYSTEMS)})
    first = _one_task(rng)
    messages += [{"role": "user", "content": first.question}, _assistant(first, strength)]
    if rng.random() < 0.2:
        if rng.random() < 0.4:
            question, answer, thought = rng.choice(_THANKS)
            second = Task("thanks", question, [thought], answer)
        else:
            second = rng.choice(small_tasks.SMALL)(rng)
        messages += [{"role": "user", "content": second.question}, _assistant(second, strength)]
    return Dialogue(messages, strength)


def long_request(rng: Random) -> Task:
    """A task whose natural reply (reasoning and answer) is longer than 140 tokens."""
    return stories.story(rng, long=True) if rng.random() < 0.8 else stories.explanation(rng)
