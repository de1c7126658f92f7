{{/* What values.schema.json cannot say: it sees one value at a time. */}}
{{- define "talkahead.check" -}}
{{- with .Values -}}
{{- if gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than autoscaling.maxReplicas, which is %d" (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- end -}}
{{- if and (has (toString .rollout.maxSurge) (list "0" "0%")) (has (toString .rollout.maxUnavailable) (list "0" "0%")) -}}
{{- fail "rollout.maxSurge, rollout.maxUnavailable: both are 0, and no replica could ever be replaced; give one of them 1" -}}
{{- end -}}
{{- if and .repository.subPath (not .repository.claim) -}}
{{- fail (printf "repository.subPath: %q is a folder of a claim; name that in repository.claim" .repository.subPath) -}}
{{- end -}}
{{- if and .tls.clientCertificates (not .tls.secret) -}}
{{- fail "tls.clientCertificates: true needs the certificates of a secret; name that in tls.secret" -}}
{{- end -}}
{{- if and .proxy.tlsSecret (not (and .proxy.enabled .tls.secret)) -}}
{{- fail (printf "proxy.tlsSecret: %q is for a proxy before replicas that speak TLS; give it proxy.enabled and tls.secret" .proxy.tlsSecret) -}}
{{- end -}}
{{- if and .gateway.enabled (not .proxy.enabled) (or .autoscaling.enabled (gt (int .replicas) 1)) -}}
{{- fail "gateway.enabled: its one connection would stay with one of several replicas; set proxy.enabled to true" -}}
{{- end -}}
{{- if and .gateway.enabled (not .gateway.keysSecret) (or .gateway.streamsPerKey .gateway.charactersPerKey) -}}
{{- fail "gateway.streamsPerKey, gateway.charactersPerKey: there is no key; name a secret of them in gateway.keysSecret" -}}
{{- end -}}
{{- if and .autoscaling.enabled (not .serviceMonitor.enabled) -}}
{{- fail "autoscaling.enabled: true needs metrics in Prometheus; set serviceMonitor.enabled to true" -}}
{{- end -}}
{{- end -}}
{{- end -}}
