{{- define "talkahead.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The headless Service. */}}
{{- define "talkahead.grpcService" -}}
{{ include "talkahead.name" . }}-grpc
{{- end -}}

{{/* Of pods for as long as a release lives: a Deployment's selector cannot change. */}}
{{- define "talkahead.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Not of replicas: their Services and policies must not meet the proxy. */}}
{{- define "talkahead.proxySelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-proxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "talkahead.gatewaySelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "talkahead.labels" -}}
{{ include "talkahead.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Where speech is asked for within the release: at the proxy, where there is one. */}}
{{- define "talkahead.speechAddress" -}}
{{ include "talkahead.name" . }}-{{ ternary "proxy" "grpc" .Values.proxy.enabled }}:{{ include "talkahead.port.grpc" . }}
{{- end -}}

{{- define "talkahead.image" -}}
{{- with .Values.image -}}
{{ .repository }}:{{ .tag | default (printf "%s%s" $.Chart.AppVersion .tagSuffix) }}
{{- end -}}
{{- end -}}
