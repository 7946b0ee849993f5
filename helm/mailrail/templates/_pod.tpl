{{/* What all pods of mailrail have in common: environment, mounts, volumes. */}}

{{/* Takes (root, role). The administrator's token is given only to who needs it. */}}
{{- define "mailrail.env" -}}
{{- $values := .root.Values -}}
- name: MAILRAIL_CONFIG
  value: /etc/mailrail/settings/mailrail.toml
{{ include "mailrail.secretEnv" (list "MAILRAIL__STORE__URL" $values.store.existingSecret $values.store.urlKey) }}
{{ include "mailrail.secretEnv" (list "MAILRAIL_ENCRYPTION_KEY" $values.keys.existingSecret $values.keys.encryptionKeyKey) }}
{{- if has .role (list "match" "deliver") }}
{{- /* A container that is started again in its pod has its partitions again at once. No other pod ever has the UID. */}}
- name: MAILRAIL__LOG__KAFKA__GROUP_INSTANCE_ID
  valueFrom:
    fieldRef: {fieldPath: metadata.uid}
{{- end }}
{{- if has .role (list "control" "prepare") }}
{{ include "mailrail.secretEnv" (list "MAILRAIL_ADMIN_TOKEN" $values.keys.existingSecret $values.keys.adminTokenKey) }}
{{- end }}
{{- if $values.redis.existingSecret }}
{{ include "mailrail.secretEnv" (list "MAILRAIL__LIMITS__REDIS" $values.redis.existingSecret $values.redis.urlKey) }}
{{- end }}
{{- if $values.kafka.sasl.existingSecret }}
{{- if not (include "mailrail.saslUsername" .root) }}
{{ include "mailrail.secretEnv" (list "MAILRAIL__LOG__KAFKA__PROPERTIES__SASL_USERNAME" $values.kafka.sasl.existingSecret $values.kafka.sasl.usernameKey) }}
{{- end }}
{{ include "mailrail.secretEnv" (list "MAILRAIL__LOG__KAFKA__PROPERTIES__SASL_PASSWORD" $values.kafka.sasl.existingSecret $values.kafka.sasl.passwordKey) }}
{{- end }}
{{- end -}}

{{- define "mailrail.secretEnv" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef: {name: {{ index . 1 }}, key: {{ index . 2 }}}
{{- end -}}

{{/* Takes the root. */}}
{{- define "mailrail.volumeMounts" -}}
- {name: settings, mountPath: /etc/mailrail/settings, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.kafka.tls.ca.existingSecret }}
- {name: kafka-ca, mountPath: /etc/mailrail/kafka-ca, readOnly: true}
{{- end }}
{{- if .Values.kafka.tls.client.existingSecret }}
- {name: kafka-client, mountPath: /etc/mailrail/kafka-client, readOnly: true}
{{- end }}
{{- if .Values.endpointsCa.existingSecret }}
- {name: endpoints-ca, mountPath: /etc/mailrail/endpoints-ca, readOnly: true}
{{- end }}
{{- end -}}

{{/* Takes (root, configMap). */}}
{{- define "mailrail.volumes" -}}
{{- $values := .root.Values -}}
- name: settings
  configMap: {name: {{ .configMap }}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- with $values.kafka.tls.ca }}
{{- if .existingSecret }}
- name: kafka-ca
  secret:
    secretName: {{ .existingSecret }}
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- with $values.kafka.tls.client }}
{{- if .existingSecret }}
- name: kafka-client
  secret:
    secretName: {{ .existingSecret }}
    items: [{key: {{ .certKey }}, path: tls.crt}, {key: {{ .keyKey }}, path: tls.key}]
{{- end }}
{{- end }}
{{- with $values.endpointsCa }}
{{- if .existingSecret }}
- name: endpoints-ca
  secret:
    secretName: {{ .existingSecret }}
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- end -}}

{{- define "mailrail.probe" -}}
httpGet: {path: {{ index . 0 }}, port: admin}
{{ toYaml (index . 1) }}
{{- end -}}
