# The gates that take a second, on the files that they are given; sourced.

# Lines of a file that a reader can take in.
size_max=600

quick_format() {
    clang-format-19 --dry-run -Werror "$@"
}

quick_spelling() {
    codespell --ignore-words-list=inout --skip='*.min.js' "$@"
}

quick_size() {
    long=$(wc -l "$@" | awk -v most="$size_max" '$1 > most && $2 != "total"')
    if [ -n "$long" ]; then
        say "these files have more than $size_max lines:"
        say "$long"
        return 1
    fi
}
