"""Make a UF2 file of a linked image: `python uf2.py firmware.elf firmware.uf2 FAMILY`.

Drives of boot loaders take such files (github.com/microsoft/uf2): blocks of 512 bytes, each with an address, 256 bytes
of flash and the number of the family of chips it is for. What a block holds beside the image is 0xFF, as erased flash.
"""

import struct
import sys

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

PAGE_BYTES, DATA_BYTES = 256, 476
FIRST_MAGIC, SECOND_MAGIC, LAST_MAGIC = 0x0A324655, 0x9E5D5157, 0x0AB16F30
HAS_FAMILY = 0x2000


def pages_of(path):
    """Address of a page of flash -> its 256 bytes, of every page that the image touches."""
    pages = {}
    with open(path, "rb") as stream:
        for segment in ELFFile(stream).iter_segments("PT_LOAD"):
            start, content = segment["p_paddr"], segment.data()
            for at in range(start - start % PAGE_BYTES, start + len(content), PAGE_BYTES) if content else ():
                page = pages.setdefault(at, bytearray(b"\xff" * PAGE_BYTES))
                first, end = max(at, start), min(at + PAGE_BYTES, start + len(content))
                page[first - at : end - at] = content[first - start : end - start]
    return pages


def blocks_of(pages, family):
    """The file's bytes."""
    whole = []
    for number, at in enumerate(sorted(pages)):
        head = (FIRST_MAGIC, SECOND_MAGIC, HAS_FAMILY, at, PAGE_BYTES, number, len(pages), family)
        data = bytes(pages[at]).ljust(DATA_BYTES, b"\0")
        whole.append(struct.pack("<8I", *head) + data + struct.pack("<I", LAST_MAGIC))
    return b"".join(whole)


def main(argv):
    if len(argv) != 4:
        print("usage: uf2.py FILE.elf FILE.uf2 FAMILY", file=sys.stderr)
        return 2
    try:
        content = blocks_of(pages_of(argv[1]), int(argv[3], 0))
        with open(argv[2], "wb") as stream:
            stream.write(content)
    except (ELFError, OSError) as error:
        print(f"error: uf2: {argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
