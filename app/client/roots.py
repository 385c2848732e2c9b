"""Where this machine keeps the authorities it trusts.

OpenSSL's own places come first, so that `SSL_CERT_FILE` and `SSL_CERT_DIR` work; a frozen program carries another system's OpenSSL
with it, so the usual files of the distributions are looked at next. With neither, the bundle that aioquic brings is used.
"""

import os
import ssl

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Armbian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # Alpine, the BSDs, macOS
)


def system_roots() -> tuple[str | None, str | None]:
    """The file and the hashed directory of root certificates, as OpenSSL names them; both None when there are none."""
    places = ssl.get_default_verify_paths()
    directory = places.capath if places.capath and _holds_anything(places.capath) else None
    if places.cafile or directory:
        return places.cafile, directory
    return next((bundle for bundle in _BUNDLES if os.path.isfile(bundle)), None), None


def _holds_anything(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
