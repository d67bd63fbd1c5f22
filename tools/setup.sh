#!/bin/sh
# Installs the Debian packages of the named groups of cmake/packages.txt that are missing.
#
#     tools/setup.sh build test
#
# Says nothing and touches nothing when all are there. Without apt, or without the right to use it, prints the
# list and stops: exit status 1. ACLGRAD_SETUP=0 skips the whole check (the tools come from somewhere else).
set -eu

here=$(dirname "$0")
packages_of() {
    for group; do
        awk -v group="$group" '$1 == group { print $2 }' "$here/../cmake/packages.txt"
    done
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

give_up() {
    {
        echo "aclgrad: cannot install packages here: $1."
        echo "These are needed (names of Debian 12) and missing:"
        echo
        for package in $missing; do
            echo "    $package"
        done
        echo
        echo "As root:  apt-get install --no-install-recommends$missing"
        echo "Then run the same command again. If you have these tools from elsewhere, set ACLGRAD_SETUP=0."
    } >&2
    exit 1
}

[ "${ACLGRAD_SETUP:-1}" != 0 ] || exit 0

missing=
for package in $(packages_of "$@"); do
    is_installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null || give_up "there is no apt-get"
as_root=
if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || give_up "not root, and no sudo without a password"
    as_root=sudo
fi

echo "aclgrad: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the list is split on purpose
{
    $as_root apt-get update -q || echo "aclgrad: apt-get update failed, trying with the lists there are" >&2
    $as_root apt-get install -q -y --no-install-recommends $missing || give_up "apt-get install failed"
}
