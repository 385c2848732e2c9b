"""`mark://` addresses: what they name, their forms, and errors that name the thing and the cure (wire §1.19)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.addresses import Address, BadAddress, parse_address
from app.protocol.limits import PATH_MAX


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("mark://host", Address("host")),
        ("mark://host/", Address("host")),
        ("mark://host:6309/a.md", Address("host", 6309, "/a.md")),
        ("mark://host:1/a", Address("host", 1, "/a")),
        ("mark://host:65535", Address("host", 65535)),
        ("mark://host:/a", Address("host", 6309, "/a")),
        ("mark://host:00080/a", Address("host", 80, "/a")),
        ("MARK://Host.Example/A", Address("host.example", 6309, "/A")),
        ("mark://127.0.0.1:7000/a", Address("127.0.0.1", 7000, "/a")),
        ("mark://[::1]/a", Address("::1", 6309, "/a")),
        ("mark://[2001:DB8:0::1]:7000", Address("2001:db8::1", 7000)),
        ("mark://[FE80::1%25Eth0]/a", Address("fe80::1%Eth0", 6309, "/a")),
        ("mark://bücher.example/ü", Address("bücher.example", 6309, "/ü")),
        ("mark://a_b-c.local/a", Address("a_b-c.local", 6309, "/a")),
        ("mark://h/a%20b%2Fc%C3%A9%23%3f", Address("h", 6309, "/a b/cé#?")),
        ("mark://h/%FF", Address("h", 6309, "/\udcff")),
        ("mark://h/a b", Address("h", 6309, "/a b")),
        ("mark://h/a%09b", Address("h", 6309, "/a\tb")),
        ("mark://h/a+b@c:d", Address("h", 6309, "/a+b@c:d")),
        ("mark://h//a/../b", Address("h", 6309, "//a/../b")),
        ("mark://h/a?x=/y#z", Address("h", 6309, "/a", "z")),
        ("mark://h/a#b%20c?d#e", Address("h", 6309, "/a", "b c?d#e")),
        ("mark://h#token=%41", Address("h", 6309, "/", "token=A")),
        ("mark://h?x@y", Address("h")),
        ("mark://h/a@b", Address("h", 6309, "/a@b")),
        ("mark://h/a#", Address("h", 6309, "/a")),
    ],
)
def test_what_an_address_names(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address
    assert parse_address(address.identity) == Address(address.host, address.port, address.path)


@pytest.mark.parametrize(
    ("address", "url", "identity", "dial"),
    [
        (Address("h"), "mark://h/", "mark://h/", "h:6309"),
        (Address("h", 7000, "/a b", "s t"), "mark://h:7000/a%20b#s%20t", "mark://h:7000/a%20b", "h:7000"),
        (Address("::1", 6309, "/"), "mark://[::1]/", "mark://[::1]/", "[::1]:6309"),
        (
            Address("fe80::1%eth0", 1, "/"),
            "mark://[fe80::1%25eth0]:1/",
            "mark://[fe80::1%25eth0]:1/",
            "[fe80::1%eth0]:1",
        ),
        (
            Address("h", 6309, "/é#?%/\udcff"),
            "mark://h/%C3%A9%23%3F%25/%FF",
            "mark://h/%C3%A9%23%3F%25/%FF",
            "h:6309",
        ),
        (Address("h", 6309, "/a-b.c_d~e!$&'()*+,;=:@"), *["mark://h/a-b.c_d~e!$&'()*+,;=:@"] * 2, "h:6309"),
    ],
)
def test_forms(address: Address, url: str, identity: str, dial: str) -> None:
    assert (str(address), address.identity, address.dial) == (url, identity, dial)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "address '' is not a mark:// URL; write mark://host/path"),
        ("host/a.md", "address 'host/a.md' is not a mark:// URL; write mark://host/path"),
        ("host:6309/a.md", "address 'host:6309/a.md' is not a mark:// URL; write mark://host/path"),
        ("/a.md", "address '/a.md' is not a mark:// URL; write mark://host/path"),
        (" mark://h/a", "address ' mark://h/a' is not a mark:// URL; write mark://host/path"),
        ("mark:/h/a", "address 'mark:/h/a' lacks its slashes; write mark://host/path"),
        ("mark:h", "address 'mark:h' lacks its slashes; write mark://host/path"),
        ("https://h/a", "address 'https://h/a' has the scheme 'https'; only mark:// is served"),
        ("marks://h/a", "address 'marks://h/a' has the scheme 'marks'; only mark:// is served"),
        ("mark:///a", "address 'mark:///a' has no host; write mark://host/path"),
        ("mark://", "address 'mark://' has no host; write mark://host/path"),
        ("mark://:6309/a", "address 'mark://:6309/a' has no host; write mark://host/path"),
        (
            "mark://u:secret@h/a",
            "address holds user information before '@'; give the token by its own option instead",
        ),
        ("mark://h:0/a", "address 'mark://h:0/a' has the port '0'; a port is a number from 1 to 65535"),
        (
            "mark://h:65536",
            "address 'mark://h:65536' has the port '65536'; a port is a number from 1 to 65535",
        ),
        ("mark://h:x/a", "address 'mark://h:x/a' has the port 'x'; a port is a number from 1 to 65535"),
        ("mark://h:+1", "address 'mark://h:+1' has the port '+1'; a port is a number from 1 to 65535"),
        ("mark://h:٣", "address 'mark://h:٣' has the port '٣'; a port is a number from 1 to 65535"),
        ("mark://[::1]:x", "address 'mark://[::1]:x' has the port 'x'; a port is a number from 1 to 65535"),
        (
            "mark://::1/a",
            "address 'mark://::1/a' has several colons in its host; write an IPv6 address in brackets",
        ),
        ("mark://[::1/a", "address 'mark://[::1/a' has a broken IPv6 host; write [::1] or [::1]:port"),
        ("mark://[::1]6309", "address 'mark://[::1]6309' has a broken IPv6 host; write [::1] or [::1]:port"),
        (
            "mark://[127.0.0.1]/",
            "address 'mark://[127.0.0.1]/' has '127.0.0.1' in brackets, which is no IPv6 address",
        ),
        ("mark://[]/", "address 'mark://[]/' has '' in brackets, which is no IPv6 address"),
        ("mark://h h/a", "address 'mark://h h/a' has ' ' in its host, which no host name has"),
        ("mark://h\udcff/a", "address 'mark://h\\udcff/a' has '\\udcff' in its host, which no host name has"),
        ("mark://h%41/a", "address 'mark://h%41/a' has '%' in its host, which no host name has"),
        ("mark://h\\x/a", "address 'mark://h\\\\x/a' has '\\\\' in its host, which no host name has"),
        ("mark://h/a%2", "address 'mark://h/a%2' has the broken escape '%2'; write % as %25"),
        ("mark://h/100%", "address 'mark://h/100%' has the broken escape '%'; write % as %25"),
        ("mark://h/a%zz", "address 'mark://h/a%zz' has the broken escape '%zz'; write % as %25"),
        ("mark://h/a#%x", "address 'mark://h/a' has the broken escape '%x'; write % as %25"),
        ("mark://h/a\nb", "address 'mark://h/a\\nb' holds a control character; percent-encode it"),
        ("mark://h\t/a", "address 'mark://h\\t/a' holds a control character; percent-encode it"),
        (
            "mark://h/a%0Ab",
            "address 'mark://h/a%0Ab' has a control character in its path, which no request can carry",
        ),
        (
            "mark://h/%00",
            "address 'mark://h/%00' has a control character in its path, which no request can carry",
        ),
        (
            "mark://h/%7f",
            "address 'mark://h/%7f' has a control character in its path, which no request can carry",
        ),
        (
            "mark://h/" + "a" * PATH_MAX,
            "address has a path of more than 4087 bytes, which no request can carry",
        ),
    ],
)
def test_errors_name_the_thing_and_the_cure(text: str, message: str) -> None:
    with pytest.raises(BadAddress) as caught:
        parse_address(text)
    assert str(caught.value) == message


def test_an_error_never_shows_a_token_that_the_fragment_holds() -> None:
    for text in ("mark://h:x#token=secret", "http://h#token=secret", "mark://h h#token=secret"):
        with pytest.raises(BadAddress) as caught:
            parse_address(text)
        assert "secret" not in str(caught.value)


raw = st.binary(max_size=20).map(lambda data: data.decode("utf-8", "surrogateescape"))
addresses = st.builds(
    Address,
    host=st.sampled_from(["h", "a.b", "127.0.0.1", "::1", "fe80::1%eth0", "bücher"]),
    port=st.integers(1, 65535),
    path=raw.filter(
        lambda text: not any((char != "\t" and ord(char) < 32) or char == "\x7f" for char in text)
    ).map("/".__add__),
    fragment=raw,
)


@settings(max_examples=200, deadline=None)
@given(addresses)
def test_the_url_of_an_address_names_it(address: Address) -> None:
    assert parse_address(str(address)) == address
    assert str(address).isascii() or "ü" in address.host


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=30)
    | st.text(st.sampled_from("ab:/[]@#?% \n1é\udcff"), max_size=20).map("mark://".__add__)
)
def test_any_text_gives_an_address_or_a_bad_address(text: str) -> None:
    result: Address | BadAddress
    try:
        result = parse_address(text)
    except BadAddress as error:
        result = error
    if isinstance(result, Address):
        assert parse_address(str(result)) == result
    else:
        assert str(result).isprintable()
