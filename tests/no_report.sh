#!/bin/sh
# Fails, and shows them, if sanitizers have left reports in directory $1.
set -eu
for report in "$1"/*; do
    if [ -e "$report" ]; then
        cat "$1"/*
        exit 1
    fi
done
