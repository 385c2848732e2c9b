"""The server's identity: a configured PEM pair, or a certificate of its own, made once and kept.

Loading refuses by name what could only fail later, in somebody's handshake: a key of another certificate, an encrypted key, a key type the
QUIC library cannot sign with. The own certificate (Ed25519, the cheapest handshake) is one file holding key and certificate, so that a
power cut can never leave a pair that does not match; it is written completely before it gets its name, and never replaced.

The wall clock is not consulted: boards boot in 1970. The own certificate is valid from 1970 to 9999, RFC 5280's date for "no end", and whether
a configured one has expired is for the client to judge.
"""

import datetime
import errno
import ipaddress
import os
import re
import tempfile

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OWN_FILE = "certificate.pem"
"""Name of the own certificate's file in the state directory."""

ServerKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_USABLE = "RSA, P-256, P-384 or Ed25519"
_KEY_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_VALID_FROM = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_VALID_TO = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


class BadCertificate(Exception):
    """A certificate or key that cannot be used; the text names the file, the fault and the cure."""


class Certificate(msgspec.Struct, frozen=True):
    """A chain, leaf first, with the leaf's private key. `fingerprint` is `sha256:` and the hex digest of the leaf's DER form."""

    chain: list[x509.Certificate]
    key: ServerKey
    fingerprint: str


def load_pair(chain_path: str, key_path: str) -> Certificate:
    """The certificate chain and key in these PEM files (PKCS#8, SEC1 or PKCS#1). Raises BadCertificate."""
    try:
        chain = x509.load_pem_x509_certificates(_read(chain_path, "certificate"))
    except ValueError as error:
        raise BadCertificate(
            f"certificate {chain_path} is no PEM certificate: {_first_line(error)}"
        ) from None
    key = _key(_read(key_path, "key"), key_path)
    if _public_bytes(chain[0].public_key()) != _public_bytes(key.public_key()):
        raise BadCertificate(
            f"key {key_path} does not belong to the first certificate in {chain_path}; the chain must begin with the server's own"
        )
    return Certificate(chain, key, fingerprint_of(chain[0]))


def load_own(directory: str) -> Certificate | None:
    """The certificate kept in a state directory, None if there is none yet. Raises BadCertificate if it cannot be used."""
    path = os.path.join(directory, OWN_FILE)
    if not os.path.lexists(path):
        return None
    try:
        return load_pair(path, path)
    except BadCertificate as error:
        raise BadCertificate(
            f"{error} (remove {path} to make a new one; clients that pinned it must be told)"
        ) from None


def make_own(directory: str, host_name: str) -> Certificate:
    """Makes a certificate for localhost and this host, keeps it in the state directory (key 0600) and gives it back.

    If another process got there first, its certificate is the answer. Raises OSError if the directory cannot be written.
    """
    path = os.path.join(directory, OWN_FILE)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    made = self_signed(host_name)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{OWN_FILE}-", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as out:  # mkstemp made it 0600
            out.write(pem(made))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(temporary, path)  # unlike a rename, never replaces
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                raise
            os.rename(temporary, path)  # a filesystem without hard links
            return made
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    _sync_directory(directory)
    return load_own(directory) or made


def self_signed(host_name: str) -> Certificate:
    """A new Ed25519 certificate for localhost, both loopback addresses and the host's name, valid whatever the clock says."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "demarkus-appliance")])
    hosts = ["localhost"] + ([host_name] if _is_dns_name(host_name) and host_name != "localhost" else [])
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    leaf = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID_FROM)
        .not_valid_after(_VALID_TO)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, None)
    )
    return Certificate([leaf], key, fingerprint_of(leaf))


def pem(certificate: Certificate) -> bytes:
    """Key (PKCS#8) and chain as one PEM text."""
    key = certificate.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificate.chain)


def fingerprint_of(leaf: x509.Certificate) -> str:
    """`sha256:` and 64 hex digits over the DER form: what clients pin."""
    return f"sha256:{leaf.fingerprint(hashes.SHA256()).hex()}"


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as source:
            return source.read()
    except OSError as error:
        cure = ""
        if isinstance(error, PermissionError):
            cure = f": make it readable for uid {os.geteuid()}"
        raise BadCertificate(f"cannot read the {what} {path} ({error.strerror}){cure}") from None


def _key(data: bytes, path: str) -> ServerKey:
    # The first private key block; `openssl ecparam` puts its parameters before it, others the certificate.
    block = _KEY_BLOCK.search(data)
    if block is None:
        raise BadCertificate(f"key {path} holds no PEM private key")
    try:
        key = serialization.load_pem_private_key(block.group() + b"\n", None)
    except TypeError:
        raise BadCertificate(
            f"key {path} is encrypted; the server cannot ask for a passphrase, store it without one"
        ) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadCertificate(f"key {path} cannot be read: {_first_line(error)}") from None
    if isinstance(key, rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1):
        return key
    raise BadCertificate(f"key {path} is {_type_name(key)} key, which cannot be used; use {_USABLE}")


def _type_name(key: PrivateKeyTypes) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        name = {"secp521r1": "P-521"}.get(key.curve.name, key.curve.name)
    else:
        name = type(key).__name__.removesuffix("PrivateKey")
    return f"{'an' if name.startswith('Ed') else 'a'} {name}"


def _public_bytes(key: object) -> bytes:
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return b""  # no key of ours
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _is_dns_name(name: str) -> bool:
    return (
        re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*", name) is not None and len(name) <= 253
    )


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
