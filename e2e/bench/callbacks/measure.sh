#!/usr/bin/env bash
# measure.sh ENVOY [CALLBACK...]: what Envoy's side of each callback of the dynamic module costs, in instructions. Needs
# valgrind, curl and a C compiler. design/upstream.md has the figures.
set -euo pipefail
envoy=$(realpath -e "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
requests=500
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -shared -fPIC -o "$folder/libcallbacks.so" callbacks.c

# Envoy's own admin port answers, so there is one process.
config() {
  cat <<END
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 19901}}}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 19900}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          http_filters:
          - name: callbacks
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
              dynamic_module_config: {name: callbacks}
              filter_name: callbacks
              filter_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: $1}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: web
              domains: ["*"]
              routes:
              - match: {prefix: /}
                metadata: {filter_metadata: {limpet: {session: web/HTTPRoute/shop/web/all}}}
                route: {cluster: admin, prefix_rewrite: /ready}
  clusters:
  - name: admin
    load_assignment:
      cluster_name: admin
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 19901}}}
END
}

get() {
  curl -sf -o "$folder/answer" -A 'Mozilla/5.0' -H 'accept-language: en' \
    -H "cookie: session=$(printf '%080d' 0); a=1" "http://127.0.0.1:19900/?[1-$1]"
}

shift
known=$(sed -n 's/.*if (is("\([a-z_]*\)")).*/\1/p' callbacks.c)
for callback in ${@:-$known}; do
  grep -qx "$callback" <<<"$known" || { echo "expected one of ${known//$'\n'/ }, found $callback" >&2; exit 1; }
  config "$callback" >"$folder/envoy.yaml"
  # A fixed address space, because Envoy's hashes depend on addresses.
  ENVOY_DYNAMIC_MODULES_SEARCH_PATH=$folder setarch -R valgrind --tool=callgrind --instr-atstart=no \
    --callgrind-out-file="$folder/callgrind" --dump-instr=no --compress-strings=no \
    "$envoy" -c "$folder/envoy.yaml" --concurrency 1 --disable-hot-restart -l error 2>"$folder/log" &
  pid=$!
  until get 1; do sleep 0.2; done
  get 100
  until callgrind_control -i on "$pid" 2>&1 | grep -q OK; do sleep 0.2; done
  get "$requests"
  callgrind_control -i off "$pid" >"$folder/control" 2>&1
  kill "$pid"
  wait "$pid" || true
  # The line behind the call from the hook: its own instructions and those of what it calls.
  calls=$(sed -n '/^cfn=envoy_dynamic_module_callback_/{n;n;s/.* //p}' "$folder"/callgrind* | sort -n | tail -1)
  echo "$callback $((calls / requests))"
done
