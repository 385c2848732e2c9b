"""The server's identity: every promised key really shakes hands, everything else is refused by name, the own one is made once."""

import base64
import datetime
import errno
import multiprocessing
import os
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from app.server.certificate import (
    OWN_FILE,
    BadCertificate,
    Certificate,
    load_own,
    load_pair,
    make_own,
    self_signed,
)
from tests.unit.server.pairs import ED25519, P256, P384, PEM, PKCS8, PLAIN, files, issue, rsa_key, secret

OLD = serialization.PrivateFormat.TraditionalOpenSSL  # PKCS#1 for RSA, SEC1 for elliptic curves

# `openssl ecparam -genkey` writes this block for P-256 before the key.
EC_PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"


def shake_hands(certificate: Certificate, trusted: x509.Certificate | None = None) -> x509.Certificate:
    """Completes a handshake through aioquic, without a socket; gives the certificate that the client saw."""
    server_side = QuicConfiguration(is_client=False, alpn_protocols=["mark"])
    server_side.certificate = certificate.chain[0]
    server_side.certificate_chain = list(certificate.chain[1:])
    server_side.private_key = certificate.key
    client_side = QuicConfiguration(is_client=True, alpn_protocols=["mark"], server_name="localhost")
    if trusted is None:
        client_side.verify_mode = ssl.CERT_NONE
    else:
        client_side.load_verify_locations(cadata=trusted.public_bytes(PEM))
    client = QuicConnection(configuration=client_side)
    server = QuicConnection(
        configuration=server_side,
        original_destination_connection_id=client.original_destination_connection_id,
    )
    client.connect(("::1", 1), now=0.0)
    for _ in range(10):
        for source, target in ((client, server), (server, client)):
            for data, _address in source.datagrams_to_send(now=0.0):
                target.receive_datagram(data, ("::1", 1), now=0.0)
    events = iter(client.next_event, None)
    assert any(isinstance(event, HandshakeCompleted) for event in events)
    seen = client.tls._peer_certificate
    assert isinstance(seen, x509.Certificate)
    return seen


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (rsa_key, PKCS8),
        (rsa_key, OLD),
        (lambda: P256, PKCS8),
        (lambda: P256, OLD),
        (lambda: P384, PKCS8),
        (lambda: P384, OLD),
        (lambda: ED25519, PKCS8),
    ],
    ids=["rsa-pkcs8", "rsa-pkcs1", "p256-pkcs8", "p256-sec1", "p384-pkcs8", "p384-sec1", "ed25519"],
)
def test_each_usable_key_shakes_hands(
    tmp_path: Path,
    make: Callable[[], rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey],
    form: serialization.PrivateFormat,
) -> None:
    key = make()
    leaf = issue(key)
    certificate = load_pair(*files(tmp_path, [leaf], key.private_bytes(PEM, form, PLAIN)))
    assert certificate.chain == [leaf]
    assert certificate.fingerprint == f"sha256:{leaf.fingerprint(hashes.SHA256()).hex()}"
    assert shake_hands(certificate) == leaf


def test_a_chain_is_sent_whole(tmp_path: Path) -> None:
    authority = issue(P384, name="ca")
    leaf = issue(P256, issuer=P384)
    certificate = load_pair(*files(tmp_path, [leaf, authority], P256.private_bytes(PEM, PKCS8, PLAIN)))
    assert certificate.chain == [leaf, authority]
    assert shake_hands(certificate, trusted=authority) == leaf


def test_parameters_before_the_key_are_stepped_over(tmp_path: Path) -> None:
    key = EC_PARAMETERS + P256.private_bytes(PEM, OLD, PLAIN)
    assert load_pair(*files(tmp_path, [issue(P256)], key)).chain


def test_one_file_may_hold_both(tmp_path: Path) -> None:
    path = tmp_path / "both.pem"
    path.write_bytes(issue(P256).public_bytes(PEM) + P256.private_bytes(PEM, PKCS8, PLAIN))
    assert load_pair(str(path), str(path)).chain


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ec.generate_private_key(ec.SECP521R1()), "a P-521 key"),
        (lambda: ec.generate_private_key(ec.SECP256K1()), "a secp256k1 key"),
        (ed448.Ed448PrivateKey.generate, "an Ed448 key"),
        (lambda: dsa.generate_private_key(1024), "a DSA key"),
    ],
)
def test_an_unusable_key_is_refused_by_name(
    tmp_path: Path, make: Callable[[], CertificateIssuerPrivateKeyTypes], name: str
) -> None:
    key = make()
    with pytest.raises(BadCertificate, match=rf"key.pem is {name}.* use RSA, P-256, P-384 or Ed25519"):
        load_pair(*files(tmp_path, [issue(key)], secret(key)))


@pytest.mark.parametrize(
    ("certificates", "key", "words"),
    [
        ([P256], secret(P384), "does not belong to the first certificate"),
        ([P384, P256], secret(P256), "does not belong to the first certificate"),
        ([P256], P256.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"x")), "is encrypted"),
        ([P256], P256.private_bytes(PEM, OLD, serialization.BestAvailableEncryption(b"x")), "is encrypted"),
        ([P256], b"", "holds no PEM private key"),
        (
            [P256],
            P256.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            "no PEM private key",
        ),
        ([P256], b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot be read"),
        ([P256], b"-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n", "cannot be read"),
        ([P256], secret(P256)[:-40], "no PEM private key"),
        ([], secret(P256), "no PEM certificate"),
    ],
)
def test_a_pair_that_cannot_work_is_refused(
    tmp_path: Path, certificates: list[CertificateIssuerPrivateKeyTypes], key: bytes, words: str
) -> None:
    with pytest.raises(BadCertificate, match=words) as caught:
        load_pair(*files(tmp_path, [issue(one) for one in certificates], key))
    assert "\n" not in str(caught.value)
    assert ".pem" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    chain_path, key_path = files(tmp_path, [issue(P256)], secret(P256))
    with pytest.raises(BadCertificate, match=r"cannot read the key .*/no.pem \(No such file or directory\)"):
        load_pair(chain_path, str(tmp_path / "no.pem"))
    with pytest.raises(BadCertificate, match=r"cannot read the certificate .*/no.pem \(No such file"):
        load_pair(str(tmp_path / "no.pem"), key_path)


def test_an_unreadable_key_names_the_file_and_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain_path, key_path = files(tmp_path, [issue(P256)], secret(P256))

    def refuse(path: str, mode: str) -> object:
        if path == key_path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open(path, mode)

    monkeypatch.setattr("app.server.certificate.open", refuse, raising=False)
    with pytest.raises(
        BadCertificate, match=rf"key.pem \(Permission denied\): make it readable for uid {os.geteuid()}"
    ):
        load_pair(chain_path, key_path)


def test_the_own_certificate_is_made_once(tmp_path: Path) -> None:
    state = str(tmp_path / "state" / "deep")
    assert load_own(state) is None
    made = make_own(state, "board.local")
    kept = load_own(state)
    assert kept is not None
    assert kept.fingerprint == made.fingerprint == make_own(state, "other").fingerprint
    assert os.listdir(state) == [OWN_FILE]
    assert stat.S_IMODE(os.stat(os.path.join(state, OWN_FILE)).st_mode) == 0o600
    assert shake_hands(kept, trusted=kept.chain[0]) == kept.chain[0]


def _make(state: str) -> str:
    return make_own(state, "board").fingerprint


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        prints = pool.map(_make, [str(tmp_path)] * 6, chunksize=1)
    assert len(set(prints)) == 1
    assert os.listdir(tmp_path) == [OWN_FILE]


def test_the_own_certificate_fits_any_clock_and_names_this_host() -> None:
    leaf = self_signed("board.local").chain[0]
    assert leaf.not_valid_before_utc == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert leaf.not_valid_after_utc.year == 9999
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "board.local"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


@pytest.mark.parametrize("host", ["", "localhost", "not a name", "-dash", "ü", "a" * 64, "under_score"])
def test_a_host_name_that_no_certificate_can_hold_is_left_out(host: str) -> None:
    leaf = self_signed(host).chain[0]
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]


def test_a_damaged_own_certificate_is_never_replaced_silently(tmp_path: Path) -> None:
    (tmp_path / OWN_FILE).write_bytes(base64.b64encode(b"torn"))
    with pytest.raises(
        BadCertificate,
        match=r"certificate.pem is no PEM certificate.*remove .*certificate.pem to make a new one",
    ):
        load_own(str(tmp_path))


def test_a_filesystem_without_hard_links_keeps_the_certificate_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("app.server.certificate.os.link", refuse)
    made = make_own(str(tmp_path), "board")
    kept = load_own(str(tmp_path))
    assert kept is not None
    assert kept.fingerprint == made.fingerprint
    assert os.listdir(tmp_path) == [OWN_FILE]


def test_a_state_directory_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="Not a directory"):
        make_own(str(tmp_path / "file" / "state"), "board")
