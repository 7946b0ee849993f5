#!/usr/bin/env bash
# The programs that the test needs, built from go.mod into target/kubernetes; prints the folder. With nothing built before it takes
# a quarter of an hour on two cores and 5 GB of Go's caches, later no time: the folder's name is a hash of what it is built from.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../services/processes.sh"
cd "$here"

# Parallel steps of the Go compiler.
jobs=${MAILRAIL_GO_JOBS:-2}
stamp=$(cat go.mod go.sum etcd/go.mod etcd/go.sum "${BASH_SOURCE[0]##*/}" | sha256sum | cut -c 1-16)
folder=$here/../../target/kubernetes/$stamp
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

need_go() {
  command -v go >/dev/null || fail "go is missing: install Go 1.26 or newer, see https://go.dev/doc/install"
}

# Without a version kube-apiserver calls itself 0.0.0, and charts with a `kubeVersion` refuse it.
version=$(sed -n 's:^\sk8s.io/kubernetes v\([0-9.]*\).*:\1:p' go.mod)
at=k8s.io/component-base/version
named="-X $at.gitVersion=v$version -X $at.gitMajor=${version%%.*} -X $at.gitMinor=$(cut -d . -f 2 <<<"$version")"

# build NAME PACKAGE [FOLDER OF ITS MODULE]: whole or not at all.
build() {
  local name=$1 package=$2 module=${3:-.}
  [ -x "$folder/$name" ] && return 0
  need_go
  say "building $name ..."
  (cd "$module" && CGO_ENABLED=0 nice -n 10 go build -buildvcs=false -p "$jobs" -ldflags "-s -w $named" -o "$folder/$name.new" "$package") ||
    fail "$name could not be built"
  mv "$folder/$name.new" "$folder/$name"
}

build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kubectl k8s.io/kubernetes/cmd/kubectl
build etcd go.etcd.io/etcd/server/v3 etcd
build helm helm.sh/helm/v4/cmd/helm
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
build keda-operator github.com/kedacore/keda/v2/cmd/operator
build keda-adapter github.com/kedacore/keda/v2/cmd/adapter

# KEDA's own definitions, of exactly this version.
if [ ! -d "$folder/keda-crds" ]; then
  need_go
  source=$(go list -m -f '{{.Dir}}' github.com/kedacore/keda/v2)
  rm -rf "$folder/keda-crds.new"
  mkdir "$folder/keda-crds.new"
  cp "$source"/config/crd/bases/*.yaml "$folder/keda-crds.new/"
  chmod -R u+w "$folder/keda-crds.new"
  mv "$folder/keda-crds.new" "$folder/keda-crds"
fi
echo "$folder"
