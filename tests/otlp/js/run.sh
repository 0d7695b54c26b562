#!/bin/sh
# Runs one recording in a network of its own, which has nothing but loopback. Needs root.
#
# usage: run.sh NAME [--brief] -- COMMAND...
# DIR (default /tmp/otlp-js) is where the packages are installed; the result is in $DIR/out/NAME.
# COMMAND finds the model at http://127.0.0.1:4100 and the receiver at http://127.0.0.1:4318.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DIR=${DIR:-/tmp/otlp-js}
NODE=${NODE:-node}
name=$1; shift
brief=
if [ "$1" = --brief ]; then brief=--brief; shift; fi
shift
out=$DIR/out/$name
rm -rf "$out" /tmp/home-dev
mkdir -p "$out" /tmp/home-dev/project
export here DIR NODE out brief
exec unshare -n -u sh -c '
  ip link set lo up
  hostname devbox
  "$NODE" "$here/fake-model.mjs" 4100 "$out/sent.ndjson" $brief & a=$!
  "$NODE" "$here/sink.mjs" 4318 "$out" & b=$!
  sleep 1
  cd /tmp/home-dev/project
  env -i PATH="$(dirname "$(command -v "$NODE")"):$DIR/node_modules/.bin:/usr/bin:/bin" HOME=/tmp/home-dev USER=dev LOGNAME=dev \
    LANG=C.UTF-8 TERM=dumb SHELL=/bin/sh DIR="$DIR" "$@" || echo "ended with $?"
  sleep 2
  kill $a $b
' sh "$@"
