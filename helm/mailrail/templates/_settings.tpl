{{/* The settings file of a pipeline: the user's settings, with what the chart knows laid over them. */}}

{{/* Takes (root, pipeline). */}}
{{- define "mailrail.settings" -}}
{{- $root := .root -}}
{{- $own := index $root.Values.pipelines .pipeline | default dict -}}
{{- $settings := dict "logs" (dict "format" "json") -}}
{{- $settings = mustMergeOverwrite $settings (deepCopy $root.Values.settings) (deepCopy ($own.settings | default dict)) -}}
{{- $kafka := $root.Values.kafka -}}
{{- $properties := dict "security.protocol" $kafka.security.protocol -}}
{{- with $kafka.sasl.mechanism -}}
{{- $_ := set $properties "sasl.mechanism" . -}}
{{- end -}}
{{- with include "mailrail.saslUsername" $root -}}
{{- $_ := set $properties "sasl.username" . -}}
{{- end -}}
{{- if hasSuffix "SSL" $kafka.security.protocol -}}
{{- /* The image's OpenSSL is linked in and knows no folder of its own: "probe" looks at the usual places. */ -}}
{{- $_ := set $properties "ssl.ca.location" (ternary "/etc/mailrail/kafka-ca/ca.crt" "probe" (not (empty $kafka.tls.ca.existingSecret))) -}}
{{- if $kafka.tls.client.existingSecret -}}
{{- $_ := set $properties "ssl.certificate.location" "/etc/mailrail/kafka-client/tls.crt" -}}
{{- $_ := set $properties "ssl.key.location" "/etc/mailrail/kafka-client/tls.key" -}}
{{- end -}}
{{- end -}}
{{- $chart := dict
  "pipeline" (dict "name" .pipeline "partitions" (include "mailrail.partitions" (dict "own" $own) | int))
  "admin" (dict "listen" "0.0.0.0:9464")
  "ingest" (dict "listen" "0.0.0.0:8080")
  "control" (dict "listen" "0.0.0.0:8081")
  "log" (dict "kind" "kafka" "kafka" (dict "brokers" $kafka.brokers "properties" $properties)) -}}
{{- if $root.Values.endpointsCa.existingSecret -}}
{{- $_ := set $chart "egress" (dict "ca_file" "/etc/mailrail/endpoints-ca/ca.crt") -}}
{{- end -}}
{{- include "mailrail.toml" (dict "table" (mustMergeOverwrite $settings $chart) "path" "") | trim -}}
{{- end -}}

{{/* A table as TOML: keys first, then its tables. Takes (table, path). */}}
{{- define "mailrail.toml" -}}
{{- $path := .path -}}
{{- range $key := keys .table | sortAlpha -}}
{{- $value := index $.table $key -}}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ include "mailrail.tomlKey" $key }} = {{ include "mailrail.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- range $key := keys .table | sortAlpha -}}
{{- $value := index $.table $key -}}
{{- if kindIs "map" $value -}}
{{- $here := list $path (include "mailrail.tomlKey" $key) | compact | join "." }}

[{{ $here }}]
{{- include "mailrail.toml" (dict "table" $value "path" $here) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mailrail.tomlKey" -}}
{{- ternary . (toJson .) (regexMatch "^[A-Za-z0-9_-]+$" .) -}}
{{- end -}}

{{/* Text in quotes (JSON's escapes are TOML's), whole numbers without a point, lists item by item. */}}
{{- define "mailrail.tomlValue" -}}
{{- if kindIs "slice" . -}}
[{{- range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "mailrail.tomlValue" $item }}{{ end -}}]
{{- else if kindIs "float64" . -}}
{{- if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "string" . -}}
{{- toJson . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* What a pod's `checksum/config` says: it changes, and pods are replaced, when the settings do. Takes (root, pipeline). */}}
{{- define "mailrail.settingsChecksum" -}}
{{- include "mailrail.settings" . | sha256sum -}}
{{- end -}}
