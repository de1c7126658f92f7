{{- define "talkahead.port.http" -}}8000{{- end -}}
{{- define "talkahead.port.grpc" -}}8001{{- end -}}
{{- define "talkahead.port.metrics" -}}8002{{- end -}}
