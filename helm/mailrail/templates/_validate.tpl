{{/* Refuses values that the schema allows and that cannot work. Each message says what to change. */}}

{{- define "mailrail.validate" -}}
{{- include "mailrail.validateRequired" . -}}
{{- include "mailrail.validateKafka" . -}}
{{- include "mailrail.validateSettings" (dict "settings" .Values.settings "at" "settings" "root" .) -}}
{{- range $name, $own := .Values.pipelines -}}
{{- with ($own | default dict).settings -}}
{{- include "mailrail.validateSettings" (dict "settings" . "at" (printf "pipelines.%s.settings" $name) "root" $) -}}
{{- end -}}
{{- end -}}
{{- range $workload := (include "mailrail.workloads" . | fromJson).items -}}
{{- include "mailrail.validateScaling" (dict "workload" $workload "at" (printf "%s of pipeline %s" $workload.role $workload.pipeline)) -}}
{{- include "mailrail.validatePods" (dict "workload" $workload "at" (printf "%s of pipeline %s" $workload.role $workload.pipeline)) -}}
{{- end -}}
{{- end -}}

{{- define "mailrail.validateRequired" -}}
{{- if not .Values.pipelines -}}
{{- fail "pipelines is empty: name at least one, for example pipelines.default.partitions=64" -}}
{{- end -}}
{{- if not .Values.kafka.brokers -}}
{{- fail "kafka.brokers is empty: name at least one broker as host:port" -}}
{{- end -}}
{{- if not .Values.store.existingSecret -}}
{{- fail "store.existingSecret is empty: name the Secret that holds the URL of Postgres (key store.urlKey)" -}}
{{- end -}}
{{- if not .Values.keys.existingSecret -}}
{{- fail "keys.existingSecret is empty: name the Secret that holds the encryption key and the administrator's token" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.backends) -}}
{{- fail "networkPolicy.backends is empty: the pods could not reach Kafka and Postgres; give egress rules, or set networkPolicy.enabled=false" -}}
{{- end -}}
{{- end -}}

{{- define "mailrail.validateKafka" -}}
{{- $kafka := .Values.kafka -}}
{{- $protocol := $kafka.security.protocol -}}
{{- if hasPrefix "SASL_" $protocol -}}
{{- if not (and $kafka.sasl.mechanism $kafka.sasl.existingSecret) -}}
{{- fail (printf "kafka.security.protocol is %s: set kafka.sasl.mechanism and kafka.sasl.existingSecret" $protocol) -}}
{{- end -}}
{{- else if or $kafka.sasl.mechanism $kafka.sasl.existingSecret -}}
{{- fail (printf "kafka.sasl is set and kafka.security.protocol is %s: nobody would log in; set it to SASL_SSL or SASL_PLAINTEXT" $protocol) -}}
{{- end -}}
{{- if and $kafka.sasl.username (not $kafka.sasl.mechanism) -}}
{{- fail "kafka.sasl.username is set without kafka.sasl.mechanism: nobody would log in" -}}
{{- end -}}
{{- include "mailrail.validateKafkaUser" . -}}
{{- if and (not (hasSuffix "SSL" $protocol)) (or $kafka.tls.ca.existingSecret $kafka.tls.client.existingSecret) -}}
{{- fail (printf "kafka.tls is set and kafka.security.protocol is %s: nothing would be encrypted; set it to SSL or SASL_SSL" $protocol) -}}
{{- end -}}
{{- end -}}

{{- define "mailrail.validateKafkaUser" -}}
{{- if .Values.kafkaUser.create -}}
{{- $kafka := .Values.kafka -}}
{{- if not .Values.kafkaUser.cluster -}}
{{- fail "kafkaUser.cluster is empty: name the Kafka resource that the user belongs to" -}}
{{- end -}}
{{- if $kafka.sasl.mechanism -}}
{{- if ne $kafka.sasl.mechanism "SCRAM-SHA-512" -}}
{{- fail (printf "kafka.sasl.mechanism is %s: a KafkaUser logs in with SCRAM-SHA-512" $kafka.sasl.mechanism) -}}
{{- end -}}
{{- if ne (include "mailrail.saslUsername" .) $kafka.sasl.existingSecret -}}
{{- fail "kafka.sasl.username differs from kafka.sasl.existingSecret: a KafkaUser and its Secret have one name; leave kafka.sasl.username out" -}}
{{- end -}}
{{- else if not $kafka.tls.client.existingSecret -}}
{{- fail "kafkaUser.create needs kafka.sasl (SCRAM-SHA-512) or kafka.tls.client: the user would have no way to log in" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Keys that the chart writes itself, with what to set in their place. Takes (settings, at, root). */}}
{{- define "mailrail.validateSettings" -}}
{{- $at := .at -}}{{- $settings := .settings -}}
{{- $owned := dict
  "pipeline.name" "the key below pipelines is the name"
  "pipeline.partitions" "set pipelines.<name>.partitions"
  "admin.listen" "the chart's probes go to its port"
  "ingest.listen" "the chart's Service goes to its port"
  "control.listen" "the chart's Service goes to its port"
  "control.token_file" "set keys.existingSecret"
  "store.url" "set store.existingSecret"
  "store.encryption_key_file" "set keys.existingSecret"
  "egress.ca_file" "set endpointsCa.existingSecret"
  "log.kind" "the chart runs roles apart, which needs kafka"
  "log.path" "the chart runs roles apart, which needs kafka"
  "log.kafka.brokers" "set kafka.brokers"
  "log.kafka.group_instance_id" "pods must not share it, and the chart gives each the UID of its own" -}}
{{- range $key, $instead := $owned -}}
{{- $value := $settings -}}
{{- range $part := splitList "." $key -}}
{{- $value = ternary (get (ternary $value dict (kindIs "map" $value)) $part) nil (and (kindIs "map" $value) (hasKey (ternary $value dict (kindIs "map" $value)) $part)) -}}
{{- end -}}
{{- if not (kindIs "invalid" $value) -}}
{{- fail (printf "%s.%s is not set here: %s" $at $key $instead) -}}
{{- end -}}
{{- end -}}
{{- range $property, $_ := (($settings.log).kafka).properties -}}
{{- if regexMatch "^(security\\.protocol|sasl\\.(mechanisms?|username|password)|ssl\\.(ca|certificate|key)\\..*)$" $property -}}
{{- fail (printf "%s.log.kafka.properties.%s is not set here: set kafka.security, kafka.sasl or kafka.tls" $at $property) -}}
{{- end -}}
{{- end -}}
{{- $redis := ($settings.limits).redis -}}
{{- if and $redis .root.Values.redis.existingSecret -}}
{{- fail (printf "%s.limits.redis and redis.existingSecret are both set: keep one" $at) -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]*@" (toString $redis) -}}
{{- fail (printf "%s.limits.redis holds a password, which a ConfigMap must not: put the URL into a Secret and name it in redis.existingSecret" $at) -}}
{{- end -}}
{{- end -}}

{{/* Takes (workload, at). */}}
{{- define "mailrail.validateScaling" -}}
{{- $workload := .workload -}}{{- $at := .at -}}
{{- $scaling := $workload.values.autoscaling -}}{{- $keda := $scaling.keda -}}
{{- $consumes := has $workload.role (list "match" "deliver") -}}
{{- if and (eq $scaling.mode "keda") (not $consumes) -}}
{{- fail (printf "%s: autoscaling.mode=keda follows the lag of a consumer group, which it does not have: set it to hpa or none" $at) -}}
{{- end -}}
{{- if ne $scaling.mode "none" -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "%s: autoscaling.minReplicas (%d) is more than maxReplicas (%d)" $at (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- if and (eq (int $scaling.minReplicas) 0) (not (and (eq $scaling.mode "keda") $scaling.allowScaleToZero)) -}}
{{- fail (printf "%s: autoscaling.minReplicas is 0: the first delivery would wait for a pod. Set it to 1 or more; with mode keda, allowScaleToZero=true permits 0" $at) -}}
{{- end -}}
{{- end -}}
{{- if $consumes -}}
{{- $idle := and (eq $scaling.mode "keda") $keda.allowIdleConsumers -}}
{{- if and (gt (include "mailrail.podsMax" $workload | int) (int $workload.partitions)) (not $idle) -}}
{{- fail (printf "%s: %s pods for %d partitions: the others would be idle. Lower %s, or let them with autoscaling.keda.allowIdleConsumers=true" $at (include "mailrail.podsMax" $workload) (int $workload.partitions) (ternary "replicas" "autoscaling.maxReplicas" (eq $scaling.mode "none"))) -}}
{{- end -}}
{{- end -}}
{{- if eq $scaling.mode "keda" -}}
{{- if and $keda.allowIdleConsumers $keda.limitToPartitionsWithLag -}}
{{- fail (printf "%s: autoscaling.keda.allowIdleConsumers and limitToPartitionsWithLag exclude each other: keep one" $at) -}}
{{- end -}}
{{- if and $keda.excludePersistentLag (not $keda.useCachedMetrics) -}}
{{- fail (printf "%s: autoscaling.keda.excludePersistentLag without useCachedMetrics takes a slow head for an idle partition and scales down while mail waits: set useCachedMetrics=true" $at) -}}
{{- end -}}
{{- if and $keda.allowIdleConsumers $keda.ensureEvenDistributionOfPartitions -}}
{{- fail (printf "%s: autoscaling.keda.ensureEvenDistributionOfPartitions never goes above the partitions, which allowIdleConsumers asks for: keep one" $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes (workload, at). */}}
{{- define "mailrail.validatePods" -}}
{{- $values := .workload.values -}}
{{- if not (or (kindIs "invalid" $values.pdb.minAvailable) (kindIs "invalid" $values.pdb.maxUnavailable)) -}}
{{- fail (printf "%s: pdb.minAvailable and pdb.maxUnavailable are both set: set one of them to null" .at) -}}
{{- end -}}
{{- if and (kindIs "invalid" $values.pdb.minAvailable) (kindIs "invalid" $values.pdb.maxUnavailable) -}}
{{- fail (printf "%s: pdb has neither minAvailable nor maxUnavailable: set one, or pdb.create=false" .at) -}}
{{- end -}}
{{- $at := .at -}}
{{- range $values.env -}}
{{- if eq (upper .name) "MAILRAIL__LOG__KAFKA__SESSION_TIMEOUT" -}}
{{- fail (printf "%s: env %s is not set here: the grace period follows from it; set settings.log.kafka.session_timeout" $at .name) -}}
{{- end -}}
{{- if eq (upper .name) "MAILRAIL__LOG__KAFKA__GROUP_INSTANCE_ID" -}}
{{- fail (printf "%s: env %s is not set here: pods must not share it, and the chart gives each the UID of its own" $at .name) -}}
{{- end -}}
{{- end -}}
{{- $least := include "mailrail.graceLeast" .workload | int -}}
{{- if lt (include "mailrail.grace" .workload | int) $least -}}
{{- fail (printf "%s: terminationGracePeriodSeconds is %d, and stopping may take %d: it would be killed while it drains; set it to %d or more, or leave it out" .at (include "mailrail.grace" .workload | int) $least $least) -}}
{{- end -}}
{{- end -}}
