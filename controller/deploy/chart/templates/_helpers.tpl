{{/* What all names begin with. A release `limpet` gets the names that the documentation uses. */}}
{{- define "limpet.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = ternary .Release.Name (printf "%s-limpet" .Release.Name) (contains "limpet" .Release.Name) -}}
{{- end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The Deployment, the Service, the ServiceAccount and others. */}}
{{- define "limpet.controller" -}}
{{ include "limpet.fullname" . }}-controller
{{- end -}}

{{/* A cluster-wide object: its name has the namespace, so that installations do not meet. */}}
{{- define "limpet.clusterWide" -}}
{{ include "limpet.fullname" .root }}-{{ .name }}:{{ .root.Release.Namespace }}
{{- end -}}

{{- define "limpet.selector" -}}
{app.kubernetes.io/name: limpet-controller, app.kubernetes.io/instance: {{ .Release.Name | toYaml }}}
{{- end -}}

{{/* In braces like the selector. Labels of the user are strings by the schema. */}}
{{- define "limpet.labels" -}}
{app.kubernetes.io/name: limpet-controller, app.kubernetes.io/instance: {{ .Release.Name | toYaml }}
{{- range $name, $value := .Values.commonLabels }}, {{ $name }}: {{ $value | quote }}{{ end }}}
{{- end -}}

{{- define "limpet.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Not empty if xDS has certificates. */}}
{{- define "limpet.hasTls" -}}
{{- if and (eq .Values.target "envoy") (not (dig "xds" "plainText" false .Values.config)) -}}
true
{{- end -}}
{{- end -}}

{{/* The Secret with the server's certificate of xDS; empty if the controller makes it, or there is none. */}}
{{- define "limpet.serverSecret" -}}
{{- if and (include "limpet.hasTls" .) (ne .Values.xds.certificates "Controller") -}}
{{ .Values.xds.serverSecret | default (printf "%s-xds-server" (include "limpet.fullname" .)) }}
{{- end -}}
{{- end -}}

{{- define "limpet.gatewayClass" -}}
{{ .Values.gatewayClass.name | default (include "limpet.fullname" .) }}
{{- end -}}

{{/* Empty where it is the controller's own default. */}}
{{- define "limpet.controllerName" -}}
{{- $fullname := include "limpet.fullname" . -}}
{{- if .Values.config.controllerName -}}
{{ .Values.config.controllerName }}
{{- else if ne $fullname "limpet" -}}
limpet.dev/{{ $fullname }}
{{- else if eq .Values.target "envoy" -}}
limpet.dev/controller
{{- end -}}
{{- end -}}

{{/*
The controller's configuration as YAML: what the chart sets, and what the user sets over it. The objects that the
controller keeps are named after the release, so that a namespace can have several controllers.
*/}}
{{- define "limpet.config" -}}
{{- $fullname := include "limpet.fullname" . -}}
{{- $config := dict "http" (dict "address" "0.0.0.0:18080") -}}
{{- with include "limpet.controllerName" . }}{{ $_ := set $config "controllerName" . }}{{ end -}}
{{- if eq .Values.target "envoy" -}}
{{- $xds := dict "address" "0.0.0.0:18000" -}}
{{- if include "limpet.serverSecret" . -}}
{{- $tls := dict "certificate" "/etc/limpet-xds/tls.crt" "key" "/etc/limpet-xds/tls.key" -}}
{{- $_ := set $xds "tls" (set $tls "clientCa" "/etc/limpet-xds/ca.crt") -}}
{{- else if include "limpet.hasTls" . -}}
{{- $authority := ternary dict (dict "secret" (printf "%s-xds-authority" $fullname)) (eq $fullname "limpet") -}}
{{- $_ := set $xds "tls" (dict "authority" $authority) -}}
{{- end -}}
{{- $_ := set $config "xds" $xds -}}
{{- if .Values.envoys.managed -}}
{{- $managed := dict "limpetImage" (include "limpet.image" .) -}}
{{- if ne $fullname "limpet" -}}
{{- $_ := set $managed "xds" (printf "%s.%s:18000" (include "limpet.controller" .) .Release.Namespace) -}}
{{- end -}}
{{- with .Values.imagePullSecrets -}}
{{- $_ := set $managed "defaults" (dict "pod" (dict "imagePullSecrets" .)) -}}
{{- end -}}
{{- $_ := set $config "envoy" (dict "managed" $managed) -}}
{{- end -}}
{{- end -}}
{{- if ne $fullname "limpet" -}}
{{- $_ := set $config "fences" (printf "%s-fences" $fullname) -}}
{{- $_ := set $config "leaderElection" (dict "name" (include "limpet.controller" .)) -}}
{{- $keyring := dict "secret" (printf "%s-keyring" $fullname) -}}
{{- $_ := set $keyring "keyEncryptionKeySecret" (printf "%s-key-encryption-key" $fullname) -}}
{{- $_ := set $config "keyring" $keyring -}}
{{- end -}}
{{- $given := deepCopy .Values.config -}}
{{- if and $given.envoy (not .Values.envoys.managed) -}}
{{- $_ := unset $given.envoy "managed" -}}
{{- end -}}
{{- if and $given.contour (ne .Values.target "envoy") -}}
{{- fail (printf "config.contour: remove it: target is %s" .Values.target) -}}
{{- end -}}
{{- if and (dig "xds" "tls" "authority" "" $given | kindIs "map") (ne .Values.xds.certificates "Controller") -}}
{{- fail (printf "config.xds.tls.authority: remove it: xds.certificates is %s" .Values.xds.certificates) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config $given) -}}
{{- end -}}

{{/* The names of the objects that the controller keeps, for its role. */}}
{{- define "limpet.kept" -}}
{{- $config := include "limpet.config" . | fromYaml -}}
{{- $keyring := $config.keyring | default dict -}}
lease: {{ ($config.leaderElection | default dict).name | default "limpet-controller" | toYaml }}
fences: {{ $config.fences | default "limpet-fences" | toYaml }}
keyring: {{ $keyring.secret | default "limpet-keyring" | toYaml }}
keyEncryptionKey: {{ $keyring.keyEncryptionKeySecret | default "limpet-key-encryption-key" | toYaml }}
{{- $authority := dig "xds" "tls" "authority" "" $config }}
{{- if kindIs "map" $authority }}
authority: {{ $authority.secret | default "limpet-xds-authority" | toYaml }}
{{- end }}
{{- end -}}

{{/* The name of everything that belongs to the Envoys of a Gateway, `namespace/name`. */}}
{{- define "limpet.envoys" -}}
{{- $head := regexReplaceAll "^[^/]*/" . "" | replace "." "-" | trunc 22 -}}
limpet-{{ regexReplaceAll "-+$" $head "" }}-{{ sha256sum . | trunc 20 }}
{{- end -}}

{{/*
Not empty if the definition is there and somebody else brought it: another release of this chart, or a release of the
Gateway API that has it. It is left alone then.
*/}}
{{- define "limpet.ofOthers" -}}
{{- $there := lookup .crd.apiVersion .crd.kind "" .crd.metadata.name -}}
{{- if $there -}}
{{- $of := $there.metadata.annotations | default dict -}}
{{- $release := printf "%s/%s" (index $of "meta.helm.sh/release-namespace") (index $of "meta.helm.sh/release-name") -}}
{{- if ne $release (printf "%s/%s" .root.Release.Namespace .root.Release.Name) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The files of the definitions that are asked for. Those for kustomize are beside them. */}}
{{- define "limpet.definitions" -}}
{{- $paths := list -}}
{{- range $folder := ternary (list "files/crds" "files/crds/contour") (list "files/crds") .Values.crds.contour -}}
{{- range $path, $_ := $.Files.Glob (printf "%s/*.yaml" $folder) -}}
{{- if ne (base $path) "kustomization.yaml" -}}
{{- $paths = append $paths $path -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $paths -}}
{{- end -}}
