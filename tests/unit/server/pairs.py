"""Keys and certificates for tests, made on the spot; what takes long to make is made when it is first asked for."""

import datetime
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()

P256 = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())
ED25519 = ed25519.Ed25519PrivateKey.generate()


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """One RSA key for all tests of a run."""
    return rsa.generate_private_key(65537, 2048)


def issue(
    key: CertificateIssuerPrivateKeyTypes,
    issuer: CertificateIssuerPrivateKeyTypes | None = None,
    name: str = "board",
) -> x509.Certificate:
    """A certificate for `key`, signed by itself or by `issuer`, whose name is then "ca"."""
    signer = issuer or key
    algorithm = (
        None if isinstance(signer, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()
    )
    now = datetime.datetime.now(datetime.UTC)

    def titled(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    return (
        x509.CertificateBuilder()
        .subject_name(titled(name))
        .issuer_name(titled("ca" if issuer else name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
        .sign(signer, algorithm)
    )


def files(folder: Path, certificates: list[x509.Certificate], key: bytes) -> tuple[str, str]:
    chain_path, key_path = folder / "chain.pem", folder / "key.pem"
    chain_path.write_bytes(b"".join(one.public_bytes(PEM) for one in certificates))
    key_path.write_bytes(key)
    return str(chain_path), str(key_path)


def secret(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    return key.private_bytes(PEM, PKCS8, PLAIN)
