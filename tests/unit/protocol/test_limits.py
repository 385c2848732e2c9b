"""The numbers of the contract, written out once more (wire §2.1, §10)."""

from app.protocol import limits


def test_the_numbers() -> None:
    numbers = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert numbers == {
        "DEFAULT_PORT": 6309,
        "ALPN": "mark",
        "LINE_MAX": 4096,
        "PATH_MAX": 4087,
        "BLOCK_MAX": 65_536,
        "BODY_MAX": 1_048_576,
        "PAYLOAD_MAX": 1_114_176,
        "REQUEST_MAX": 1_118_274,
        "RESPONSE_MAX": 4_194_304,
        "PUBLISHER_KEYS_MAX": 50,
        "PUBLISHER_BYTES_MAX": 1024,
        "FRONTMATTER_MAX": 2048,
        "LIST_PAGE_MAX": 1000,
        "LIST_BYTES_MAX": 1_048_576,
        "LOOKUP_LIMIT_DEFAULT": 10,
        "LOOKUP_LIMIT_MAX": 1000,
        "LOOKUP_TERMS_MAX": 32,
        "SNIPPET_MAX": 240,
        "TASK_LIMIT_MAX": 5,
        "TASK_QUERY_MAX": 4096,
    }
