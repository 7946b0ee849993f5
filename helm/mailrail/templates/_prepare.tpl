{{/* What the containers of the prepare Job have in common. Takes (root, pipeline, role). */}}
{{- define "mailrail.prepareContainer" -}}
env:
  {{- include "mailrail.env" . | nindent 2 }}
resources:
  {{- toYaml .root.Values.prepare.resources | nindent 2 }}
securityContext:
  {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
volumeMounts:
  {{- include "mailrail.volumeMounts" .root | nindent 2 }}
{{- end -}}

{{/* A KafkaUser of this release does not exist before the install: then the pods themselves check, and wait for its Secret. */}}
{{- define "mailrail.prepareHook" -}}
{{- ternary "pre-upgrade" "pre-install,pre-upgrade" .Values.kafkaUser.create -}}
{{- end -}}
