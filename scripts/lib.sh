# Shared by the scripts beside it; sourced, after cd to the project's root.

# What building and running needs, all of it from Debian.
packages="cmake ninja-build pkg-config gcc g++ libc6-dev libnng-dev libuv1-dev
libflatbuffers-dev flatbuffers-compiler zlib1g-dev libjansson-dev libxxhash-dev libssl-dev libsnappy-dev
libcurl4-openssl-dev libexpat1-dev libmicrohttpd-dev"

say() {
    printf '%s\n' "$*" >&2
}

# Runs a command as root: as it is, or with sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "this needs root, and there is no sudo: run as root: $*"
        return 1
    fi
}

# Installs the packages named that are missing; with none missing, does nothing at all.
need() {
    missing=""
    for package in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing="$missing $package"
        fi
    done
    if [ -z "$missing" ]; then
        return 0
    fi
    say "installing:$missing"
    as_root apt-get update -qq
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
