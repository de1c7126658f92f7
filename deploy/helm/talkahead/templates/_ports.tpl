{{- define "talkahead.port.http" -}}8000{{- end -}}
{{- define "talkahead.port.grpc" -}}8001{{- end -}}
{{- define "talkahead.port.metrics" -}}8002{{- end -}}
{{- define "talkahead.port.proxy" -}}8100{{- end -}}
{{- define "talkahead.port.proxyAdmin" -}}9901{{- end -}}
{{- define "talkahead.port.gateway" -}}8080{{- end -}}
{{- define "talkahead.port.riva" -}}50051{{- end -}}

{{/* A collector's, of its URL. */}}
{{- define "talkahead.port.traces" -}}
{{- $url := urlParse .Values.traces.url -}}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}

{{/* Triton has no TLS for HTTP. With TLS, the server keeps that to its own container. */}}
{{- define "talkahead.hasHttp" -}}
{{- if not .Values.tls.secret }}true{{ end -}}
{{- end -}}

{{/* What Kubernetes is told that gRPC is spoken over. */}}
{{- define "talkahead.grpcProtocol" -}}
{{- ternary "grpc" "kubernetes.io/h2c" (ne .Values.tls.secret "") -}}
{{- end -}}
