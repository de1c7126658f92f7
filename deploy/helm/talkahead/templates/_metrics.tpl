{{/* What the autoscaler goes by: gauges of the talker (python_backends/talkahead/telemetry.py), with their targets for
one replica. The first chunk that `control` predicts is none of them: the server does not export it. */}}
{{- define "talkahead.metrics" -}}
talkahead_open_streams: {{ int .Values.autoscaling.openStreams }}
talkahead_queued_streams: {{ int .Values.autoscaling.queuedStreams }}
{{- end -}}
