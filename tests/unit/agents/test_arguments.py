"""What tools take: schemas as clients want them, and calls as models make them."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.agents import arguments, tools
from app.agents.answers import Refusal
from app.agents.tools import BY_NAME, INSTRUCTIONS, TOOLS

# The reference's names (operations §10); what may be left out is marked there by the lack of a star. Its mark_lookup needs `url`; ours
# may leave it out.
REFERENCE = {
    "mark_fetch": ({"url"}, {"force", "verbose"}),
    "mark_explore": ({"url"}, {"direction", "relations", "page_size", "cursor", "verbose"}),
    "mark_list": ({"url"}, {"include_archived", "cursor", "page_size"}),
    "mark_versions": ({"url"}, set()),
    "mark_lookup": ({"query"}, {"url", "filter", "limit", "match", "budget", "verbose"}),
    "mark_publish": ({"url", "body", "expected_version"}, {"on_conflict", "metadata"}),
    "mark_append": ({"url", "body"}, {"expected_version"}),
    "mark_archive": ({"url"}, set()),
    "mark_backlinks": ({"url"}, set()),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_names_and_arguments_are_those_of_the_reference(name: str) -> None:
    needed, optional = REFERENCE[name]
    schema = arguments.schema(BY_NAME[name].arguments)
    assert set(schema["required"]) == needed
    assert needed | optional <= schema["properties"].keys()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_one_closed_object_with_every_argument_described(tool: Any) -> None:
    schema = arguments.schema(tool.arguments)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert "$ref" not in json.dumps(schema)
    assert all(one["description"] for one in schema["properties"].values())
    assert set(schema.get("required", ())) <= schema["properties"].keys()


def test_every_word_in_backticks_is_a_tool_or_an_argument_or_a_value_of_one() -> None:
    wrong = []
    for tool in TOOLS:
        schema = arguments.schema(tool.arguments)
        known = {*BY_NAME, *schema["properties"], "*"}
        for one in schema["properties"].values():
            known |= set(one.get("enum", ()))
        known |= {"match"} if tool.name == "mark_lookup_all" else set()
        texts = [tool.description, *(one["description"] for one in schema["properties"].values())]
        wrong += [
            (tool.name, word)
            for text in texts
            for word in re.findall(r"`([^`]*)`", text)
            if word not in known
        ]
    assert wrong == []
    assert set(re.findall(r"`([^`]*)`", INSTRUCTIONS)) <= BY_NAME.keys()


def test_every_word_in_backticks_that_an_agent_may_read_is_an_argument() -> None:
    known = {*BY_NAME, "*"}
    for tool in TOOLS:
        for name, one in arguments.schema(tool.arguments)["properties"].items():
            known |= {name, *one.get("enum", ())}
    wrong = [
        (path.name, word)
        for path in Path(tools.__file__).parent.glob("*.py")
        for text in said(ast.parse(path.read_text("utf-8")))
        for word in re.findall(r"`([^`]+)`", text)
        if word not in known
    ]
    assert wrong == []


def said(tree: ast.Module) -> list[str]:
    """The texts of a module but for its docstrings."""
    quiet = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet
    ]


def test_no_text_advises_an_option_of_the_command_line() -> None:
    texts = [
        INSTRUCTIONS,
        *(tool.description for tool in TOOLS),
        *(json.dumps(arguments.schema(tool.arguments)) for tool in TOOLS),
    ]
    assert [text for text in texts if re.search(r"(^|\s)--?[a-z]", text)] == []


@pytest.mark.parametrize("name", ["mark_lookup", "map"])
def test_the_searching_tools_ask_for_the_task_in_ones_own_words(name: str) -> None:
    text = BY_NAME[name].description
    assert "in your own words" in text
    assert "quotes" in text


def test_hints_say_what_may_happen_without_asking() -> None:
    seen = {
        tool.name: (
            tool.behaviour.reads_only,
            tool.behaviour.destroys,
            tool.behaviour.repeats_safely,
            tool.behaviour.leaves_here,
        )
        for tool in TOOLS
    }
    assert {name: hints for name, hints in seen.items() if not hints[0]} == {
        "mark_publish": (False, True, True, True),
        "mark_append": (False, False, False, True),
        "mark_archive": (False, True, True, True),
    }
    assert seen["help"] == (True, False, True, False)


def test_models_write_numbers_as_text_and_null_for_nothing() -> None:
    given = arguments.parse(
        arguments.Lookup, {"url": "/", "query": "x", "limit": "5", "filter": None, "verbose": "true"}
    )
    assert (given.limit, given.filter, given.verbose) == (5, arguments.UNSET, True)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (arguments.Fetch, {}, "missing argument `url`"),
        (
            arguments.Fetch,
            {"uri": "x"},
            "unknown argument `uri` (the arguments are: url, force, offset, verbose)",
        ),
        (arguments.Fetch, {"url": 5}, "Expected `str`, got `int` in `url`"),
        (arguments.Lookup, {"url": "/", "query": "x", "limit": 1001}, "Expected `int` <= 1000 in `limit`"),
        (
            arguments.Lookup,
            {"url": "/", "query": "x", "match": "fuzzy"},
            "Invalid enum value 'fuzzy' in `match`",
        ),
        (arguments.Publish, {"url": "/a.md", "body": "x"}, "missing argument `expected_version`"),
        (arguments.Publish, {"url": "/a.md", "body": "x", "expected_version": -1}, "in `expected_version`"),
        (
            arguments.Publish,
            {"url": "/a.md", "body": "x", "expected_version": 0, "metadata": {"a": 1}},
            "in `metadata",
        ),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong_and_what_there_is(
    kind: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refusal) as caught:
        arguments.parse(kind, given)
    assert said in str(caught.value)
