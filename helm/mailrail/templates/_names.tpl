{{/* Names, labels, image: what every object says of itself. */}}

{{- define "mailrail.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
Name of an object: `<release>-<suffix>`, at most 54 characters, because KEDA makes a label of `keda-hpa-<name>`. A release whose
name is too long for that is cut and told apart by a hash. Takes (root, suffix).
*/}}
{{- define "mailrail.name" -}}
{{- $base := include "mailrail.fullname" .root -}}
{{- $room := sub 53 (len .suffix) | int -}}
{{- if gt (len $base) $room -}}
{{- $base = printf "%s-%s" (trunc (int (sub $room 7)) $base | trimSuffix "-") (sha256sum $base | trunc 6) -}}
{{- end -}}
{{- printf "%s-%s" $base .suffix -}}
{{- end -}}

{{/* Name of the Service of a role's admin port. Takes (root, pipeline, role). */}}
{{- define "mailrail.adminService" -}}
{{- include "mailrail.name" (dict "root" .root "suffix" (printf "%s-%s-admin" .pipeline .role)) -}}
{{- end -}}

{{/* Labels that never change and that selectors use. Takes (root, pipeline, role). */}}
{{- define "mailrail.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default .root.Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
mailrail-pipeline: {{ .pipeline }}
{{- end -}}

{{/* Labels of an object that belongs to the whole release. Takes the root. */}}
{{- define "mailrail.releaseLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/part-of: mailrail
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of an object of one role of one pipeline. Takes (root, pipeline, role). */}}
{{- define "mailrail.labels" -}}
{{ include "mailrail.releaseLabels" .root }}
app.kubernetes.io/component: {{ .role }}
mailrail-pipeline: {{ .pipeline }}
{{- end -}}

{{- define "mailrail.image" -}}
{{- $registry := (.Values.global).imageRegistry | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "mailrail.pullSecrets" -}}
{{- with (.Values.global).imagePullSecrets | default .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "mailrail.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "mailrail.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}
