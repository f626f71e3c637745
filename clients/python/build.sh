#!/bin/bash
# Puts the ready package into DIR, which goes into PYTHONPATH: the client, and its messages by this machine's protoc.
#   clients/python/build.sh DIR
set -euo pipefail
if [[ $# != 1 || $1 == -* ]]; then
  sed -n '2,3s/^# \{0,1\}//p' "$0"
  [[ ${1:-} == -h || ${1:-} == --help ]] && exit 0
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT

protos=(proto/medley/v1/{cluster,coordinator,job,kernels,message_protection,node_check,plan,rules}.proto)
(cd "$here/../.." && protoc -I. --python_out="$generated" --pyi_out="$generated" "${protos[@]}")
# Modules are medley.v1.*, and no package of the name "proto" that others have, too.
sed -i 's/^from proto\.medley\.v1 import/from medley.v1 import/' "$generated"/proto/medley/v1/*_pb2.py*

rm -rf "$1/medley"
mkdir -p "$1/medley/v1"
cp -L "$here"/medley/*.py "$here/medley/py.typed" "$1/medley/"
cp "$generated"/proto/medley/v1/*_pb2.py* "$1/medley/v1/"
touch "$1/medley/v1/__init__.py"
