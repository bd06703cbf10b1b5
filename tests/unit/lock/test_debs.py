"""The list of Debian packages."""

import pytest

from kit.errors import UsageError
from kit.lock.debs import Deb, dump, from_apt_show, load

BASH = Deb("bash", "5.2.15-2+b7", "amd64", 1490636, "d" * 64, "pool/main/b/bash/bash_5.2.15-2+b7_amd64.deb")
UTILS = Deb("bsdutils", "1:2.38.1-5", "amd64", 86272, "e" * 64, "pool/main/u/util-linux/bsdutils_2.38.1-5_amd64.deb")


def test_a_list_reads_back_as_written():
    assert load(dump([UTILS, BASH], ["x"]), "debian.lock") == [BASH, UTILS]
    assert UTILS.file == "bsdutils_2.38.1-5_amd64.deb"


@pytest.mark.parametrize("line", ["bash 5.2", f"bash 5 amd64 big {'d' * 64} p", "bash 5 amd64 1 dddd p"])
def test_a_damaged_line_is_named(line: str):
    with pytest.raises(UsageError, match=r"debian\.lock:2:") as caught:
        load(f"# head\n{line}\n", "debian.lock")
    assert caught.value.evidence == [line]


def test_apt_show_is_read_stanza_by_stanza():
    text = f"""Package: bash
Essential: yes
Version: {BASH.version}
Architecture: amd64
Description: GNU Bourne Again SHell
 Bash is a shell
Filename: {BASH.path}
Size: {BASH.size}
SHA256: {BASH.sha256}

Package: without-hash
Version: 1
"""
    assert from_apt_show(text) == [BASH]
