{{/*
How long the end of a pod takes, in seconds. Everything follows from longestUtteranceSeconds:

  longest utterance < drain timeout < termination grace

A pod that is deleted still gets new streams until every client and proxy knows, so SIGTERM waits for that (preStop);
then `talkahead serve` refuses new streams and waits for open ones (--drain-timeout), and Triton ends (--exit-timeout,
and 5 s more that the launcher gives it).
*/}}

{{- define "talkahead.endpointDelay" -}}5{{- end -}}

{{- define "talkahead.exitTimeout" -}}10{{- end -}}

{{- define "talkahead.drainTimeout" -}}
{{- add .Values.longestUtteranceSeconds 10 -}}
{{- end -}}

{{- define "talkahead.terminationGrace" -}}
{{- add (include "talkahead.endpointDelay" .) (include "talkahead.drainTimeout" .) (include "talkahead.exitTimeout" .) 15 -}}
{{- end -}}

{{/* A server that does not speak has no streams to wait for. */}}
{{- define "talkahead.sickGrace" -}}
{{- add (include "talkahead.exitTimeout" .) 15 -}}
{{- end -}}

{{/* Of the time that a probe has, what its client does not take to start. */}}
{{- define "talkahead.syllableDeadline" -}}
{{- subf .Values.probes.timeoutSeconds 0.5 -}}
{{- end -}}

{{/* Failures of a probe, at this period, that last longer than a start may: the launcher speaks first, in the log. */}}
{{- define "talkahead.failuresOfAStart" -}}
{{- add (div .root.Values.server.startTimeoutSeconds .periodSeconds) 2 -}}
{{- end -}}
