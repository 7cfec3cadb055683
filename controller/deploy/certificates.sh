#!/usr/bin/env bash
# certificates.sh [NAMESPACE]: prints the Secrets limpet-xds-server and limpet-xds-client, which have the certificates
# of xDS, valid for a year. The key of their authority is not kept. For clusters without cert-manager:
#   certificates.sh | kubectl apply -f -
set -euo pipefail
namespace=${1:-limpet-system}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${key[@]}" -keyout ca.key -out ca.crt -days 365 -subj /CN=limpet-xds \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>openssl.log ||
  { cat openssl.log >&2; exit 1; }

# certificate NAME SUBJECT EXTENSION...
certificate() {
  local name=$1 subject=$2
  shift 2
  printf '%s\n' "$@" >"$name.ext"
  openssl req "${key[@]}" -keyout "$name.key" -out "$name.csr" -subj "$subject"
  openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile "$name.ext" \
    -out "$name.crt"
} 2>>openssl.log

service=limpet-controller.$namespace
certificate server /CN=limpet-controller extendedKeyUsage=serverAuth \
  "subjectAltName=DNS:limpet-controller,DNS:$service,DNS:$service.svc"
certificate client /CN=limpet-envoy extendedKeyUsage=clientAuth

for name in server client; do
  cat <<END
apiVersion: v1
kind: Secret
metadata: {name: limpet-xds-$name, namespace: $namespace}
type: kubernetes.io/tls
data:
  ca.crt: $(base64 -w0 ca.crt)
  tls.crt: $(base64 -w0 "$name.crt")
  tls.key: $(base64 -w0 "$name.key")
---
END
done
