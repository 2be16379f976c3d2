#!/bin/sh
# Prints the path of a Python of the version given, such as 3.13, or nothing.
for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if "$python" -c "import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2> /dev/null; then
        command -v "$python"
        exit
    fi
done
