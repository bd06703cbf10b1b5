"""Which packages on which machine, and apt sources derived for a newer suite."""

from kit.engine.distributions import choose, sources_of

DEBIAN_12 = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
DEBIAN_13 = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_CODENAME=trixie\nID=debian\n'
UBUNTU = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n'
MINT = 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n'
FEDORA = "ID=fedora\nVERSION_ID=43\n"


def test_debian_12_takes_its_engine_from_debian_13_and_runc_from_itself():
    chosen = choose(DEBIAN_12)
    assert chosen is not None
    assert (chosen.newer, chosen.codename) == ("trixie", "bookworm")
    assert "docker.io" in chosen.from_newer
    assert "runc" in chosen.from_host and "runc" not in chosen.from_newer


def test_newer_debian_and_ubuntu_take_all_from_their_own_suite():
    debian, ubuntu, mint = choose(DEBIAN_13), choose(UBUNTU), choose(MINT)
    assert debian is not None and debian.newer is None and "docker-compose" in debian.from_host
    assert ubuntu is not None and ubuntu.id == "ubuntu" and "docker-compose-v2" in ubuntu.from_host
    assert mint is not None and mint.id == "ubuntu" and mint.codename == "noble"


def test_other_distributions_have_no_entry():
    assert choose(FEDORA) is None
    assert choose("") is None


def test_a_deb822_source_is_derived_with_its_mirror_and_key():
    text = """# a comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://vendor.example/apt
Suites: bookworm
Components: stable
"""
    assert sources_of("trixie", instead_of="bookworm", sources={"debian.sources": text}) == (
        "Types: deb\n"
        "URIs: http://mirror.example/debian\n"
        "Suites: trixie trixie-updates\n"
        "Components: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )


def test_one_line_sources_are_derived_and_others_left_out():
    text = (
        "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian-security bookworm-security main\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "# deb http://mirror.example/debian bookworm main\n"
        "deb http://vendor.example/linux bookworm stable\n"
    )
    assert sources_of("trixie", instead_of="bookworm", sources={"sources.list": text}) == (
        "Types: deb\n"
        "URIs: http://mirror.example/debian-security\n"
        "Suites: trixie-security\n"
        "Components: main\n"
        "Signed-By: /k.gpg\n"
    )


def test_no_entry_of_the_suite_gives_nothing():
    assert sources_of("trixie", instead_of="bookworm", sources={"a.list": "deb http://x.example sid main\n"}) == ""
