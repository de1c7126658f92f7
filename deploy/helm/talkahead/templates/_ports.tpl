{{- define "talkahead.port.http" -}}8000{{- end -}}
{{- define "talkahead.port.grpc" -}}8001{{- end -}}
{{- define "talkahead.port.metrics" -}}8002{{- end -}}

{{/* Triton has no TLS for HTTP. With TLS, the server keeps that to its own container. */}}
{{- define "talkahead.hasHttp" -}}
{{- if not .Values.tls.secret }}true{{ end -}}
{{- end -}}
