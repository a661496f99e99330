#!/bin/sh
# Builds a Kubernetes API server and its controller manager from Debian's source package, into
# FOLDER/bin. Needs root on Debian, two cores for about 6 minutes and 2 GB of disk while it builds.
#   build.sh FOLDER
set -eu
mkdir -p "$1" && cd "$1" && ROOT=$(pwd)
[ -x bin/kube-apiserver ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo 'a real Kubernetes is built from a Debian package: run this as root on Debian' >&2
	exit 2
fi
export DEBIAN_FRONTEND=noninteractive
mkdir -p bin lists/partial cache/archives/partial gopath/src/k8s.io
apt-get update -qq
apt-get install -y -qq --no-install-recommends golang-go dpkg-dev rsync jq make openssl \
	etcd-server golang-github-modern-go-reflect2-dev >/dev/null
# the machine's own sources, asked for source packages; its own lists stay as they are
sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >src.sources
SOURCES="-o Dir::Etc::sourcelist=$ROOT/src.sources -o Dir::Etc::sourceparts=/dev/null
	-o Dir::State::lists=$ROOT/lists -o Dir::Cache=$ROOT/cache"
apt-get $SOURCES update -qq
apt-get $SOURCES source --download-only kubernetes >/dev/null
TREE=$ROOT/gopath/src/k8s.io/kubernetes
rm -rf "$TREE"
dpkg-source -x kubernetes_*.dsc "$TREE" >/dev/null
# the vendored reflect2 reads maps wrongly under a newer Go: the server dies at the first sorted map
REFLECT=$TREE/vendor/github.com/modern-go/reflect2
rm -f "$REFLECT"/*.go "$REFLECT"/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go \
	/usr/share/gocode/src/github.com/modern-go/reflect2/*.s "$REFLECT"/
rm -f "$REFLECT"/*_test.go
cat >version <<'END'
KUBE_GIT_COMMIT='debian'
KUBE_GIT_TREE_STATE='clean'
KUBE_GIT_VERSION='v1.20.2'
KUBE_GIT_MAJOR='1'
KUBE_GIT_MINOR='20'
END
cd "$TREE"
GOPATH=$ROOT/gopath GOCACHE=$ROOT/gocache GO111MODULE=off GOPROXY=off CGO_ENABLED=0 HOME=$ROOT \
	KUBE_GIT_VERSION_FILE=$ROOT/version make KUBE_BUILD_PLATFORMS=linux/amd64 \
	WHAT='cmd/kube-apiserver cmd/kube-controller-manager' >"$ROOT/build.log" 2>&1 ||
	{ tail -20 "$ROOT/build.log" >&2; exit 1; }
cp _output/local/bin/linux/amd64/kube-apiserver _output/local/bin/linux/amd64/kube-controller-manager "$ROOT/bin"
cd "$ROOT" && rm -rf gocache gopath cache lists kubernetes_*
