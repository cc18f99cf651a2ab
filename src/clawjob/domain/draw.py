"""Numbers that look drawn by chance but depend on nothing but words: the same in every process and version."""

import hashlib


def draw(purpose: str, *words: str) -> int:
    """A number from 0 to 2**64 - 1, another one for each purpose."""
    text = "\0".join((purpose, *words))
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big")
