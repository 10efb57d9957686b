{{/* Ports of the container that nobody outside of the pod has to know. */}}
{{- define "ackproxy.bootstrapPort" -}}19092{{- end }}
{{- define "ackproxy.adminPort" -}}9464{{- end }}

{{- define "ackproxy.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ackproxy.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "ackproxy.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "ackproxy.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "ackproxy.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "ackproxy.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "ackproxy.claimName" -}}
{{- .Values.state.persistence.existingClaim | default (include "ackproxy.fullname" .) }}
{{- end }}

{{- define "ackproxy.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ackproxy.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "ackproxy.labels" -}}
{{ include "ackproxy.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* name, namespace and labels of an object: what stands below its "metadata:" */}}
{{- define "ackproxy.metadata" -}}
name: {{ include "ackproxy.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "ackproxy.labels" . | nindent 2 }}
{{- end }}

{{- define "ackproxy.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The host that clients are told. */}}
{{- define "ackproxy.advertise" -}}
{{- .Values.config.listen.advertise | default (printf "%s.%s.svc" (include "ackproxy.fullname" .) .Release.Namespace) }}
{{- end }}

{{/* host:port to listen at, of the port given as .port */}}
{{- define "ackproxy.listenAt" -}}
{{- $host := .root.Values.bindAddress }}
{{- ternary (printf "[%s]" $host) $host (contains ":" $host) }}:{{ .port }}
{{- end }}

{{/* Where each node is, as a JSON object by id: what nodes says, and what host_pattern makes of the other brokers.ids. ackproxy serves the port of such a
     node from the start; with host_pattern alone it would wait until an answer names the node. */}}
{{- define "ackproxy.nodes" -}}
{{- $nodes := dict }}
{{- range $id, $address := .Values.config.upstream.nodes }}
  {{- $_ := set $nodes (toString $id) $address }}
{{- end }}
{{- with .Values.config.upstream.host_pattern }}
  {{- range $.Values.brokers.ids }}
    {{- $id := int . | toString }}
    {{- if not (hasKey $nodes $id) }}
      {{- $_ := set $nodes $id (replace "{id}" $id $.Values.config.upstream.host_pattern) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toJson $nodes }}
{{- end }}

{{/* Those of brokers.ids that ackproxy does not know before an answer names them, separated by commas. */}}
{{- define "ackproxy.unknownNodes" -}}
{{- $nodes := include "ackproxy.nodes" . | fromJson }}
{{- $unknown := list }}
{{- range .Values.brokers.ids }}
  {{- if not (hasKey $nodes (int . | toString)) }}
    {{- $unknown = append $unknown (int .) }}
  {{- end }}
{{- end }}
{{- join ", " $unknown }}
{{- end }}

{{/* Fails with a sentence for what the schema cannot know. Ports are checked by brokerPorts. */}}
{{- define "ackproxy.check" -}}
{{- if not .Values.brokers.ids }}
  {{- fail "brokers.ids: which nodes does the Kafka cluster have? For example --set 'brokers.ids={0,1,2}'" }}
{{- end }}
{{- if not .Values.config.upstream.bootstrap }}
  {{- fail "config.upstream.bootstrap: where is Kafka? For example --set 'config.upstream.bootstrap={kafka:9092}'" }}
{{- end }}
{{- if and .Values.state.persistence.enabled (gt (int .Values.replicaCount) 1) }}
  {{- fail "state.persistence.enabled: one volume has one writer; set replicaCount to 1" }}
{{- end }}
{{- if gt (int .Values.replicaCount) 1 }}
  {{- with include "ackproxy.unknownNodes" . }}
    {{- fail (printf "replicaCount: a replica serves the port of a node that it knows, and where are the nodes %s? Set config.upstream.host_pattern, for example to kafka-{id}.kafka:9092, or config.upstream.nodes; or replicaCount to 1" .) }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Not empty where .policy is a dead-letter policy that says nothing of failures, and has no volume for its spool to outlive the pod. */}}
{{- define "ackproxy.withoutSpool" -}}
{{- with .policy }}
{{- if and (eq (.builtin | default "") "dlq") (not (hasKey (.config | default dict) "on_failure")) (not $.root.Values.state.persistence.enabled) -}}
{{ .name }}
{{- end }}
{{- end }}
{{- end }}

{{/* A size or a quantity (65536, 64MiB, 512Mi, 1G) in MiB. */}}
{{- define "ackproxy.mebibytes" -}}
{{- $unit := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $size := ternary . (printf "%.0f" (float64 .)) (kindIs "string" .) }}
{{- divf (mulf (regexFind "^[0-9.]+" $size) (get $unit (regexFind "[kKMGT]i?" $size) | default 1)) 1048576 }}
{{- end }}

{{/* The memory limit in MiB that the dead-letter policy .policy needs: docs/dead-letters.md, "Memory". */}}
{{- define "ackproxy.memoryNeeded" -}}
{{- $protocol := .root.Values.config.protocol | default dict }}
{{- $config := .policy.config | default dict }}
{{- $memory := include "ackproxy.mebibytes" (dig "memory" "64MiB" $config) | float64 }}
{{- $record := include "ackproxy.mebibytes" (dig "max_record" "32MiB" $config) | float64 }}
{{- $use := addf (include "ackproxy.mebibytes" (dig "keep_records" "64MiB" $protocol)) (include "ackproxy.mebibytes" (dig "max_buffered" "256MiB" $protocol)) }}
{{- $use = addf $use $memory (mulf 3 (maxf (divf $memory 4) $record)) (ternary $memory 0.0 (eq (dig "transactions" "pass" $config) "queue")) }}
{{- divf (addf $use 64) 0.9 | ceil | int }}
{{- end }}

{{/* The broker ports as a JSON array of {"id":…,"port":…}, in the order of brokers.ids. Fails where two listeners would share a port. */}}
{{- define "ackproxy.brokerPorts" -}}
{{- $ports := list }}
{{- $taken := dict (include "ackproxy.bootstrapPort" .) "the bootstrap listener" (include "ackproxy.adminPort" .) "the admin listener" }}
{{- $_ := set $taken (int .Values.service.port | toString) "service.port" }}
{{- range .Values.brokers.ids }}
  {{- $port := add $.Values.config.listen.broker_ports.base . }}
  {{- if gt $port 65535 }}
    {{- fail (printf "brokers.ids: node %v would be at port %v; choose a lower config.listen.broker_ports.base" . $port) }}
  {{- end }}
  {{- with get $taken (toString $port) }}
    {{- fail (printf "brokers.ids: port %v is that of %s; choose another config.listen.broker_ports.base" $port .) }}
  {{- end }}
  {{- $ports = append $ports (dict "id" (int .) "port" $port) }}
  {{- $_ := set $taken (toString $port) (printf "node %v" .) }}
{{- end }}
{{- toJson $ports }}
{{- end }}

{{/* A duration such as 1m30s in seconds, rounded up. */}}
{{- define "ackproxy.seconds" -}}
{{- $unit := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 }}
{{- $sum := 0.0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)" . -1 }}
  {{- $sum = addf $sum (mulf (regexFind "[0-9.]+" .) (get $unit (regexFind "[a-z]+" .))) }}
{{- end }}
{{- ceil $sum | int }}
{{- end }}
