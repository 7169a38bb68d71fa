#!/bin/sh
# SGLang in a virtual environment of its own: install_sglang.sh FOLDER [cpu|gpu]. Does nothing when it is there.
#
# cpu: for tests and demos on a machine without a GPU; the stock wheel with a CPU build of torch and only what it imports
# (with its dependencies it brings many gigabytes of CUDA). The shim in workers/rollway_workers/engines/sglang_cpu stands in
# for what is CUDA only.
set -eu
folder="$1"
kind="${2:-cpu}"
version=0.5.23
here="$(cd "$(dirname "$0")" && pwd)"
marker="$folder/.sglang-$version-$kind"
[ -e "$marker" ] && exit 0
python="${PYTHON:-$(command -v python3.11 || command -v python3)}"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
pip="$folder/bin/python -m pip install --quiet --disable-pip-version-check"
if [ "$kind" = gpu ]; then
    $pip "sglang==$version"
else
    $pip torch==2.13.0
    $pip -r "$here/sglang-cpu-requirements.txt"
    $pip --no-deps triton==3.7.0 torchvision==0.28.0 apache-tvm-ffi==0.1.11 llguidance==1.9.1 xgrammar==0.2.7 \
        soundfile==0.13.1 "sglang==$version"
fi
touch "$marker"
