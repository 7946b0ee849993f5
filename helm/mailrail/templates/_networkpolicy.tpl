{{/* Rules of the NetworkPolicies. */}}

{{/* Takes (root, workload role, values). */}}
{{- define "mailrail.ingressRules" -}}
{{- $policy := .root.Values.networkPolicy -}}
- ports: [{port: admin, protocol: TCP}]
  from:
    {{- $policy.metricsFrom | default (list (dict "namespaceSelector" dict)) | toYaml | nindent 4 }}
    # `helm test`.
    - podSelector: {matchLabels: {app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: test}}
{{- if eq .role "ingest" }}
- ports: [{port: http, protocol: TCP}]
  {{- with $policy.ingestFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- else if eq .role "control" }}
- ports: [{port: http, protocol: TCP}]
  from:
    {{- if $policy.controlFrom }}
    {{- toYaml $policy.controlFrom | nindent 4 }}
    {{- else }}
    - podSelector: {matchLabels: {app.kubernetes.io/instance: {{ .root.Release.Name }}}}
    {{- end }}
{{- end }}
{{- end -}}

{{/* Names are looked up anywhere, backends as given; deliver reaches the world without its private networks. Takes (root, role, pipeline). */}}
{{- define "mailrail.egressRules" -}}
{{- $policy := .root.Values.networkPolicy -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{ toYaml $policy.backends }}
{{- if eq .role "deliver" }}
{{- $own := index .root.Values.pipelines .pipeline | default dict }}
{{- $allowed := (($own.settings).egress).allow_cidrs | default ((.root.Values.settings).egress).allow_cidrs | default list }}
{{- $four := list }}{{ $six := list }}
{{- range $policy.deniedCidrs }}
{{- if contains ":" . }}{{ $six = append $six . }}{{ else }}{{ $four = append $four . }}{{ end }}
{{- end }}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: {{ toJson $four }}}
    - ipBlock: {cidr: "::/0", except: {{ toJson $six }}}
    {{- range $allowed }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  {{- with $policy.endpointPorts }}
  ports:
    {{- range . }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}
