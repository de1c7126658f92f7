{{/* What the autoscaler goes by: gauges of the talker (python_backends/talkahead/telemetry.py), with their targets for
one replica. */}}
{{- define "talkahead.metrics" -}}
{{- with .Values.autoscaling -}}
talkahead_open_streams: {{ int .openStreams | quote }}
talkahead_queued_streams: {{ int .queuedStreams | quote }}
{{- if .predictedFirstChunkMilliseconds }}
talkahead_predicted_first_chunk_seconds: {{ printf "%dm" (int .predictedFirstChunkMilliseconds) | quote }}
{{- end }}
{{- end -}}
{{- end -}}
