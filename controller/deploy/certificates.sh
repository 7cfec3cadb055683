#!/usr/bin/env bash
# certificates.sh FOLDER NAMESPACE/NAME...: prints the Secret limpet-xds-server, and a Secret for the Envoys of each of
# these Gateways, named as in `xds.tls.authority` (limpet-<name>-<hash>-xds). They have certificates of xDS that are
# valid for DAYS (a year), for controllers without an authority of their own (`xds.tls.certificate`):
#   certificates.sh FOLDER default/web | kubectl apply -f -
#
# FOLDER keeps the authority that signs them: ca.crt, and ca.key, with which anybody can make certificates for
# controllers and Envoys. It is made if it is not there. Run the script again before the certificates end: with the same
# FOLDER, old and new ones trust each other. The certificates in FOLDER/former.crt, if it is there, are trusted, too.
set -euo pipefail
usage() {
  echo "usage: [DAYS=365] [NAMESPACE=limpet-system] certificates.sh FOLDER NAMESPACE/NAME...:" \
    "FOLDER keeps the authority, the others are Gateways" >&2
  exit 2
}
[[ $# -ge 2 && $1 != -* ]] || usage
folder=$1 namespace=${NAMESPACE:-limpet-system} days=${DAYS:-365}
shift
for gateway in "$@"; do
  [[ $gateway =~ ^[a-z0-9-]+/[a-z0-9.-]+$ ]] && continue
  echo "expected NAMESPACE/NAME of a Gateway, found $gateway" >&2
  usage
done
umask 077
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# quietly COMMAND...: shows what the command says only if it fails.
quietly() {
  "$@" 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
}

key=(-algorithm EC -pkeyopt ec_paramgen_curve:P-256)
mkdir -p "$folder"
if [[ ! -e $folder/ca.key ]]; then
  # Without its key, an authority cannot go on, and another one would not be trusted by what is there.
  [[ ! -e $folder/ca.crt ]] || { echo "$folder/ca.key is missing, and $folder/ca.crt is there" >&2; exit 1; }
  quietly openssl genpkey "${key[@]}" -out "$tmp/ca.key"
  mv "$tmp/ca.key" "$folder/ca.key"
fi
# An authority must outlast what it signs. Its certificate is made anew with the same key, so what it signed stays
# valid.
if ! openssl x509 -checkend $((days * 86400 + 86400)) -in "$folder/ca.crt" >/dev/null 2>&1; then
  quietly openssl req -x509 -key "$folder/ca.key" -out "$tmp/ca.crt" -days $((days + 3650)) -subj /CN=limpet-xds \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
  mv "$tmp/ca.crt" "$folder/ca.crt"
fi
cat "$folder/ca.crt" >"$tmp/trusted.crt"
[[ ! -e $folder/former.crt ]] || cat "$folder/former.crt" >>"$tmp/trusted.crt"

# certificate NAME SUBJECT EXTENSION...
certificate() {
  local name=$1 subject=$2
  shift 2
  printf '%s\n' "$@" >"$tmp/$name.ext"
  quietly openssl genpkey "${key[@]}" -out "$tmp/$name.key"
  quietly openssl req -new -key "$tmp/$name.key" -out "$tmp/$name.csr" -subj "$subject"
  quietly openssl x509 -req -in "$tmp/$name.csr" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -days "$days" \
    -set_serial "0x$(openssl rand -hex 16)" -extfile "$tmp/$name.ext" -out "$tmp/$name.crt"
}

# secret NAME CERTIFICATE
secret() {
  cat <<END
apiVersion: v1
kind: Secret
metadata: {name: $1, namespace: $namespace}
type: kubernetes.io/tls
data:
  ca.crt: $(base64 -w0 "$tmp/trusted.crt")
  tls.crt: $(base64 -w0 "$tmp/$2.crt")
  tls.key: $(base64 -w0 "$tmp/$2.key")
---
END
}

service=limpet-controller.$namespace
certificate server /CN=limpet-controller extendedKeyUsage=serverAuth \
  "subjectAltName=DNS:limpet-controller,DNS:$service,DNS:$service.svc"
secret limpet-xds-server server
for gateway in "$@"; do
  # The name of everything that belongs to the Envoys of a Gateway.
  head=${gateway#*/} head=${head//./-} head=${head:0:22}
  while [[ $head == *- ]]; do head=${head%-}; done
  hash=$(printf %s "$gateway" | openssl dgst -sha256 -r)
  name=limpet-$head-${hash:0:20}
  certificate client "/CN=$name" extendedKeyUsage=clientAuth "subjectAltName=URI:spiffe://limpet.dev/gateway/$gateway"
  secret "$name-xds" client
done
