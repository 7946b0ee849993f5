{{/*
Every Deployment that there is: pipelines × enabled roles, as a JSON list of {pipeline, partitions, role, name, values, leaveSeconds}. Values are
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
{{- $items = append $items (dict "pipeline" $pipeline "partitions" (include "mailrail.partitions" (dict "own" $own) | int) "role" $role "name" $name "values" $values "leaveSeconds" (include "mailrail.leaveSeconds" (dict "root" $root "own" $own) | int)) -}}
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

{{/* A duration of the settings file, in whole seconds. Takes (text, at). */}}
{{- define "mailrail.seconds" -}}
{{- $text := .text -}}{{- $at := .at -}}
{{- $total := 0 -}}
{{- if not (regexMatch "^( *[0-9]+ *[a-z]+)+ *$" $text) -}}
{{- fail (printf "%s is %s: write numbers with units, as 1m 30s" $at $text) -}}
{{- end -}}
{{- range regexFindAll "[0-9]+ *[a-z]+" $text -1 -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if has $unit (list "m" "min" "mins" "minute" "minutes") -}}
{{- $number = mul $number 60 -}}
{{- else if has $unit (list "h" "hr" "hrs" "hour" "hours") -}}
{{- $number = mul $number 3600 -}}
{{- else if has $unit (list "ms" "msec" "millis") -}}
{{- $number = div (add $number 999) 1000 -}}
{{- else if not (has $unit (list "s" "sec" "secs" "second" "seconds")) -}}
{{- fail (printf "%s is %s: the grace period follows from it, and the chart does not know the unit %s; write it in ms, s, m or h" $at $text $unit) -}}
{{- end -}}
{{- $total = add $total $number -}}
{{- end -}}
{{- $total -}}
{{- end -}}

{{/*
The most that leaving the group takes: the release of partitions, which waits for 60 s or the session and 10 s, whichever is more, and
30 s for commits and the goodbye. Takes (root, own: the pipeline's values).
*/}}
{{- define "mailrail.leaveSeconds" -}}
{{- $of := (((.root.Values.settings).log).kafka).session_timeout -}}
{{- $own := (((.own.settings).log).kafka).session_timeout -}}
{{- $given := $own | default $of | default "1m" | toString -}}
{{- $session := include "mailrail.seconds" (dict "text" $given "at" "settings.log.kafka.session_timeout") | int -}}
{{- add (max 60 (add $session 10)) 30 -}}
{{- end -}}

{{/*
Least grace period: the pause before SIGTERM, the most that the process takes after it, and 5 s. Doors take 20 s for open requests;
match and deliver what leaving the group takes; then all take 5 s for the log and 5 s for the rest. `make chart` compares this with the
constants of the code. Takes a workload.
*/}}
{{- define "mailrail.graceLeast" -}}
{{- $stop := ternary 20 (.leaveSeconds | int) (has .role (list "ingest" "control")) -}}
{{- add (.values.preStopSleepSeconds | int) $stop 5 5 5 -}}
{{- end -}}

{{- define "mailrail.grace" -}}
{{- .values.terminationGracePeriodSeconds | default (include "mailrail.graceLeast" .) | int -}}
{{- end -}}
