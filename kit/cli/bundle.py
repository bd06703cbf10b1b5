"""`kit bundle`: what operators get."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kit.cli import out
from kit.cli.options import File, Json
from kit.cli.progress import byte_progress

if TYPE_CHECKING:
    from kit.bundle.keys import TrustedKey
    from kit.bundle.releases import Releases

app = typer.Typer(
    help="Pack, verify, install and roll back releases for operators without internet.",
    no_args_is_help=True,
    add_completion=False,
)

Bundle = Annotated[Path, typer.Argument(help="The bundle: its folder, or its .tar, whole or in parts.")]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        envvar="KIT_TRUSTED_KEY",
        help="Public key of the sender (PEM, ssh-ed25519 line or allowed_signers), got by another way than the bundle.",
        show_default=False,
    ),
]


@app.command()
def pack(
    file: File = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", envvar="KIT_SIGNING_KEY", help="Private ed25519 key to sign with.", show_default=False),
    ] = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Do not sign: nobody can know who packed it.")] = False,
    folder: Annotated[Path, typer.Option("--out", help="Folder in which the bundle is made.")] = Path("dist"),
    one_file: Annotated[bool, typer.Option("--one-file", help="One .tar in place of a folder.")] = False,
    chunk: Annotated[
        str | None, typer.Option("--chunk", help="Largest file, such as 4000MiB for FAT media.", show_default=False)
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="Day from which it is refused, YYYY-MM-DD.", show_default=False)
    ] = None,
    unqualified: Annotated[
        bool, typer.Option("--unqualified", help="Pack although no passed smoke test of this image is at hand.")
    ] = False,
    sources: Annotated[
        bool, typer.Option("--sources/--no-sources", help="Add every input of the image's build.")
    ] = False,
    python: Annotated[
        list[str],
        typer.Option("--python", help="Python versions to serve. Default: 3.11, 3.12, 3.13.", show_default=False),
    ] = [],  # noqa: B006
    allow: Annotated[
        list[str],
        typer.Option("--allow", help="A rule that a refusal named and that does not matter.", show_default=False),
    ] = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Pack image, settings, reports, kit and documents of a deployment, signed."""
    from kit.bundle import images, keys, source, wheels
    from kit.bundle.pack import Options, prepare, write
    from kit.config import load
    from kit.config.schema import parse_size
    from kit.engine import connect
    from kit.errors import UsageError
    from kit.serve.image import image_of

    if key is None and not unsigned:
        raise UsageError(
            "a bundle is signed: name the private key",
            hint=f"--key kit.key (made with: {keys.HOW_TO_MAKE}); or --unsigned",
        )
    try:
        limit = parse_size(chunk) if chunk else None
    except ValueError as error:
        raise UsageError(f"--chunk {error}", hint="--chunk 4000MiB") from None
    deployment = load(file)
    signer = keys.load_private(key, _passphrase) if key else None
    options = Options(folder, one_file, limit, expires, unqualified, python or wheels.PYTHONS, allow, sources)
    engine = connect(out.say)
    with contextlib.closing(engine.client()) as client:
        reference = image_of(deployment, client)
        scratch = deployment.state / "bundle"
        with source.opened(client, Path(engine.data_root), reference, scratch, out.say) as archive:
            ready = prepare(deployment, images.canonical(archive, reference), options, out.say)
            out.say(f"bundle: packing {ready.manifest.release}")
            with byte_progress(ready.size, "packing") as count:
                done = write(ready, signer, count)
    if json:
        out.as_json(done.to_json())
    else:
        out.data(str(done.path))
        out.say(f"{done.files} files, {done.size / 1e6:.0f} MB; signed by {done.signed_by or 'nobody'}")


@app.command()
def verify(
    bundle: Bundle,
    key: Key = None,
    hashes_only: Annotated[
        bool, typer.Option("--hashes-only", help="Check for damage only: says nothing about who packed it.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a bundle against its signature, to the last bit, with a key from outside it."""
    from datetime import UTC, datetime

    from kit.bundle.stored import open_bundle
    from kit.bundle.verify import verify as check

    trusted = None if hashes_only else _trusted(key)
    found = open_bundle(bundle)
    total = sum(found.size(name) for name in found.files)
    with byte_progress(total, "verifying") as count:
        done = check(found, trusted, now=datetime.now(UTC), progress=count)
    if json:
        out.as_json(done.to_json())
        return
    who = f"signed by {done.key.fingerprint}" if done.key else "undamaged; who packed it was not checked"
    out.data(f"{done.manifest.release}: {who}; {len(found.files)} files, {total / 1e6:.0f} MB")


@app.command()
def install(
    bundle: Bundle,
    key: Key = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", envvar="KIT_RELEASES", help="Folder of the releases. Default: /opt/kit/NAME.", show_default=False
        ),
    ] = None,
    stage: Annotated[
        bool, typer.Option("--stage", help="Everything but the switch: what runs goes on running.")
    ] = False,
    json: Json = False,
) -> None:
    """Verify a bundle, install its release beside the others, switch to it, and report its acceptance."""
    from datetime import UTC, datetime

    from kit.bundle import acceptance
    from kit.bundle.box import Machine
    from kit.bundle.install import install as put
    from kit.bundle.releases import Releases
    from kit.bundle.stored import open_bundle
    from kit.bundle.verify import verify as check

    trusted, found, now = _trusted(key), open_bundle(bundle), datetime.now(UTC)
    with byte_progress(sum(found.size(name) for name in found.files), "verifying") as count:
        verified = check(found, trusted, now=now, progress=count)
    release = verified.manifest.release
    releases = Releases((to or Path("/opt/kit") / verified.manifest.name).absolute())
    put(verified, releases, Machine(releases, out.say, byte_progress), out.say, stage_only=stage, now=now)
    if stage:
        out.data(f"{release} is staged in {releases.folder(release)}; the same command without --stage switches to it")
        return
    report = acceptance.record(releases, release)
    out.as_json(report) if json else out.data("\n".join(map(out.clean, acceptance.lines(report))))


In = Annotated[
    Path | None,
    typer.Option("--in", envvar="KIT_RELEASES", help="Folder of the releases: /opt/kit/NAME.", show_default=False),
]


@app.command("list")
def list_(folder: In = None, json: Json = False) -> None:
    """List the releases installed in a folder: which is current, which one a rollback returns to."""
    releases = _releases(folder)
    current, pending = releases.current, releases.pending
    back = releases.previous(current) if current else None
    rows = []
    for release in releases.installed():
        facts = releases.facts(release)
        mark = "current" if release == current else "previous" if release == back else ""
        mark = "switch interrupted" if pending and pending.to == release else mark
        rows.append(
            {
                "release": release,
                "state": mark,
                "installed": facts.get("installed"),
                "signed_by": facts.get("signed_by"),
            }
        )
    if json:
        out.as_json({"schema": "kit.bundle-list/1", "folder": str(releases.root), "current": current, "releases": rows})
        return
    for row in rows:
        out.data(f"{row['release']:44} {row['installed'] or ''!s:22} {row['state']}")
    if pending:
        out.say(f"a switch to {pending.to} was interrupted: install it again, or kit bundle rollback")
    if not rows:
        out.say(f"no release is installed in {releases.root}")


@app.command()
def rollback(
    folder: In = None,
    release: Annotated[
        str | None, typer.Option("--release", help="Go to this release, not the previous one.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Return to the previous release: stop the service, start that one, check it."""
    from kit import files
    from kit.bundle import acceptance, switch
    from kit.bundle.box import Machine

    releases = _releases(folder)
    with files.locked(releases.lock, what=f"an installation in {releases.root}"):
        before, now = switch.rollback(releases, Machine(releases, out.say, byte_progress), release, out.say)
        report = acceptance.record(releases, now)
    if json:
        out.as_json({"schema": "kit.bundle-rollback/1", "from": before, "to": now, "acceptance": report})
    else:
        out.data(f"{before} -> {now}")
        out.data("\n".join(map(out.clean, acceptance.lines(report))))


@app.command()
def remove(
    chosen: Annotated[
        list[str], typer.Argument(metavar="RELEASE...", help="Releases, as kit bundle list names them.")
    ] = [],  # noqa: B006
    folder: In = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="All but this many, the oldest first.", show_default=False)
    ] = None,
    keep_images: Annotated[bool, typer.Option("--keep-images", help="Leave the images in the engine.")] = False,
    json: Json = False,
) -> None:
    """Remove old releases: files, logs, caches, and images that no release here needs. The current one and the one
    that a rollback returns to stay."""
    from kit import files
    from kit.bundle import remove as removing
    from kit.bundle.box import Machine
    from kit.errors import UsageError

    if bool(chosen) == (keep is not None):
        raise UsageError("name the releases, or say how many to keep", hint="kit bundle list; --keep 3")
    releases = _releases(folder)
    with files.locked(releases.lock, what=f"an installation in {releases.root}"):
        wanted = chosen if keep is None else removing.outdated(releases, keep)
        box = Machine(releases, out.say, byte_progress)
        done = removing.remove(releases, box, wanted, out.say, images=not keep_images)
    if json:
        out.as_json({"schema": "kit.bundle-remove/1", "removed": list(done.releases), "images": list(done.images)})
        return
    for what, gone in (("release", done.releases), ("image", done.images)):
        for name in gone:
            out.data(f"removed {what} {name}")
    if not done.releases:
        out.say("nothing to remove")


def _releases(folder: Path | None) -> Releases:
    from kit.bundle.releases import Releases
    from kit.errors import MissingError, UsageError

    if folder is None:
        raise UsageError("name the folder of the releases", hint="--in /opt/kit/NAME, or use the `kit` in that folder")
    if not (folder / "releases").is_dir():
        raise MissingError(f"no release was ever installed in {folder}", hint="kit bundle install BUNDLE --key KEY")
    return Releases(folder.absolute())


def _trusted(key: Path | None) -> list[TrustedKey]:
    from kit.bundle.keys import load_trusted
    from kit.errors import UsageError

    if key is None:
        raise UsageError(
            "verifying needs the sender's public key, from outside the bundle",
            hint="--key kit.pub; or --hashes-only, which finds damage but not forgery",
        )
    return load_trusted(key)


def _passphrase() -> bytes:
    return str(typer.prompt("Passphrase of the signing key", hide_input=True, err=True)).encode()
