{{/*
Every Deployment that there is: pipelines × enabled roles, as a JSON list of {pipeline, partitions, role, name, values}. Values are
those of the role with the pipeline's own laid over them. Templates of every kind go through this one list.
*/}}
{{- define "mailrail.workloads" -}}
{{- $root := . -}}
{{- $items := list -}}
{{- range $pipeline := keys .Values.pipelines | sortAlpha -}}
{{- $own := index $root.Values.pipelines $pipeline | default dict -}}
{{- range $role := list "ingest" "match" "deliver" "control" -}}
{{- $values := mustMergeOverwrite (deepCopy (index $root.Values $role)) (deepCopy (index $own $role | default dict)) -}}
{{- if $values.enabled -}}
{{- $name := include "mailrail.name" (dict "root" $root "suffix" (printf "%s-%s" $pipeline $role)) -}}
{{- $items = append $items (dict "pipeline" $pipeline "partitions" (include "mailrail.partitions" (dict "own" $own) | int) "role" $role "name" $name "values" $values) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/* The binary's own default, for a pipeline that does not say. */}}
{{- define "mailrail.partitions" -}}
{{- .own.partitions | default 64 -}}
{{- end -}}

{{/* Whether an autoscaler decides how many pods there are. Takes a workload. */}}
{{- define "mailrail.autoscaled" -}}
{{- if ne .values.autoscaling.mode "none" }}true{{ end -}}
{{- end -}}

{{/* Most pods that there can be. Takes a workload. */}}
{{- define "mailrail.podsMax" -}}
{{- if include "mailrail.autoscaled" . }}{{ .values.autoscaling.maxReplicas }}{{ else }}{{ .values.replicas }}{{ end -}}
{{- end -}}

{{/*
Least grace period: the pause before SIGTERM, the most that the process takes after it, and 5 s. Doors take 20 s for open requests;
match and deliver 90 s to drain, give their partitions back, commit and leave the group; then all take 5 s for the log and 5 s for
the rest. `make chart` compares this with the constants of the code. Takes a workload.
*/}}
{{- define "mailrail.graceLeast" -}}
{{- $stop := ternary 20 90 (has .role (list "ingest" "control")) -}}
{{- add (.values.preStopSleepSeconds | int) $stop 5 5 5 -}}
{{- end -}}

{{- define "mailrail.grace" -}}
{{- .values.terminationGracePeriodSeconds | default (include "mailrail.graceLeast" .) | int -}}
{{- end -}}
