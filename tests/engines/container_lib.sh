# Shared by the scripts beside it, in the project's root, with $work set; sourced. Builds images with buildah, in a
# directory of the script's own. Where there is no registry, Debian's image is what mmdebstrap makes of its packages.
images=$work/images
debian=docker.io/library/debian:12-slim

image() {
    buildah --root "$work/layers" --runroot "$work/layers.run" "$@"
}

remove_images() {
    image rm -a >/dev/null 2>&1 || true
    image rmi -af >/dev/null 2>&1 || true
    umount "$work/layers/overlay" 2>/dev/null || true
}

build_debian() {
    local container mirror=http://deb.debian.org
    mmdebstrap --variant=minbase --quiet bookworm "$work/debian.tar" \
        "deb $mirror/debian bookworm main" "deb $mirror/debian-security bookworm-security main" >&2
    container=$(image from scratch)
    image add --quiet "$container" "$work/debian.tar" / >/dev/null
    image commit --quiet --rm "$container" "$debian" >/dev/null
    rm "$work/debian.tar"
}

# build FILE NAME OPTIONS...: in the project's root. What it says is in build.log.
build_image() {
    image build --quiet --isolation chroot --network host --pull=false --layers -f "$1" -t "$2" "${@:3}" . \
        >>"$work/build.log" 2>&1 || fail "the image $2 cannot be built"
}

# Coxswain's image, and that of the click example as a job, as docs/engines.md has them.
build_images() {
    mkdir -p "$images"
    if ! image pull --quiet "$debian" >/dev/null 2>&1; then
        say "no registry answers: debian:12-slim is made of Debian's packages"
        build_debian
    fi
    say "building the images"
    build_image deploy/container/Containerfile coxswain-build --target build
    build_image deploy/container/Containerfile coxswain
    build_image tests/engines/click.Containerfile "$1"
}

# What keeps a pod's namespaces, for containerd: it waits for SIGTERM.
build_pause() {
    local container
    cat >"$work/pause.c" <<END
#include <signal.h>
int main(void)
{
    int got;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, 0);
    return sigwait(&ends, &got);
}
END
    gcc -O2 -static -o "$work/pause" "$work/pause.c"
    container=$(image from scratch)
    image add --quiet "$container" "$work/pause" /pause >/dev/null
    image config --entrypoint '["/pause"]' "$container"
    image commit --quiet --rm "$container" localhost/pause:1 >/dev/null
}
