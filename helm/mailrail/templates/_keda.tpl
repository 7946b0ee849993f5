{{/* KEDA's access to Kafka, and the names of topics and groups as the binary makes them. */}}

{{/* The user name of SASL, where it does not come from a Secret. Strimzi's Secrets hold none: there it is that of the KafkaUser. */}}
{{- define "mailrail.saslUsername" -}}
{{- if .Values.kafka.sasl.mechanism -}}
{{- .Values.kafka.sasl.username | default (ternary .Values.kafka.sasl.existingSecret "" .Values.kafkaUser.create) -}}
{{- end -}}
{{- end -}}

{{/* Whether any secret is needed to reach Kafka. */}}
{{- define "mailrail.kafkaSecrets" -}}
{{- if or .Values.kafka.sasl.existingSecret .Values.kafka.tls.ca.existingSecret .Values.kafka.tls.client.existingSecret }}true{{ end -}}
{{- end -}}

{{/* Name of the TriggerAuthentication, empty where none is needed. */}}
{{- define "mailrail.kedaAuthentication" -}}
{{- if .Values.keda.authentication.existing -}}
{{- .Values.keda.authentication.existing -}}
{{- else if include "mailrail.kafkaSecrets" . -}}
{{- include "mailrail.name" (dict "root" . "suffix" "kafka") -}}
{{- end -}}
{{- end -}}

{{- define "mailrail.usesKeda" -}}
{{- range $workload := (include "mailrail.workloads" . | fromJson).items -}}
{{- if eq $workload.values.autoscaling.mode "keda" }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* `<prefix><kind>.<pipeline>`. Takes (names (root, pipeline), kind). */}}
{{- define "mailrail.logName" -}}
{{- $values := .names.root.Values -}}
{{- $own := index $values.pipelines .names.pipeline | default dict -}}
{{- $prefix := ($own.settings).topic_prefix | default $values.settings.topic_prefix | default "" -}}
{{- printf "%s%s.%s" $prefix .kind .names.pipeline -}}
{{- end -}}
