#!/usr/bin/env bash
# certificates.sh FOLDER [NAMESPACE]: prints the Secrets limpet-xds-server and limpet-xds-client, which have the
# certificates of xDS, valid for DAYS (a year). For clusters without cert-manager:
#   certificates.sh FOLDER | kubectl apply -f -
#
# FOLDER keeps the authority that signs them: ca.crt, and ca.key, with which anybody can make certificates for
# controllers and Envoys. It is made if it is not there. Run the script again before the certificates end: with the same
# FOLDER, old and new ones trust each other. The certificates in FOLDER/former.crt, if it is there, are trusted, too.
set -euo pipefail
if [[ $# -lt 1 || $# -gt 2 || $1 == -* ]]; then
  echo "usage: [DAYS=365] certificates.sh FOLDER [NAMESPACE]: FOLDER keeps the authority" >&2
  exit 2
fi
folder=$1 namespace=${2:-limpet-system} days=${DAYS:-365}
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
# An authority must outlast what it signs. Its certificate is made anew with the same key, so what it signed stays valid.
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
  ca.crt: $(base64 -w0 "$tmp/trusted.crt")
  tls.crt: $(base64 -w0 "$tmp/$name.crt")
  tls.key: $(base64 -w0 "$tmp/$name.key")
---
END
done
