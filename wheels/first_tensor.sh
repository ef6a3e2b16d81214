# Installs the wheel in the folder $2 into a fresh environment of the Python $1, makes a shared tensor, and runs the
# package's own test.
set -eu
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"$1" -m venv "$environment"
python=$environment/bin/python
begin=$(date +%s%N)
"$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$2" shmtensor
"$python" -c 'import shmtensor as st; st.ones(1000)'
end=$(date +%s%N)
echo "from pip install to the first shared tensor: $(((end - begin) / 1000000)) ms"
timeout 900 "$python" -m shmtensor.test
