#!/bin/sh
# sh verify.sh KEY.pub [FOLDER]: is FOLDER (default: this script's) what the owner of KEY.pub signed, to the last bit?
# KEY.pub must have reached you by another way than the bundle: PEM for openssl, an allowed_signers file for ssh-keygen.
set -eu
export LC_ALL=C
key=$(readlink -f "${1:?usage: sh verify.sh KEY.pub [FOLDER]}") && cd "${2:-$(dirname "$0")}"
if grep -q 'BEGIN PUBLIC KEY' "$key"; then
  openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig
else ssh-keygen -Y verify -f "$key" -I "${KIT_SIGNER:-kit}" -n kit-bundle -s SHA256SUMS.sshsig <SHA256SUMS; fi
[ -z "$(find . -type l -o ! -type f ! -type d)" ] || { echo "links or special files in the bundle" >&2; exit 6; }
sha256sum -c SHA256SUMS >/dev/null || exit 6
[ "$(find . -type f | grep -Ev '^\./SHA256SUMS(\.sig|\.sshsig)?$' | sort)" = "$(sed 's/^.\{64\}  /.\//' SHA256SUMS | sort)" ] ||
  { echo "files that nobody signed" >&2; exit 6; }
end=$(sed -n 's/^ "expires": "\(.*\)",*$/\1/p' bundle.json | tr -d -) # a day, or nothing
[ -z "$end" ] || [ "$(date -u +%Y%m%d)" -lt "$end" ] || { echo "the bundle has expired" >&2; exit 6; }
