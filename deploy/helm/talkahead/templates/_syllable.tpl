{{/*
A syllable. Triton's own health pages call a server ready whose models have died or hang. One that is full or draining
keeps its pod: see `talkahead-probe` for who is well, and _durations.tpl for how soon one that is not is known.
*/}}
{{- define "talkahead.syllable" -}}
exec:
  command:
    - talkahead-probe
    - --http-port={{ include "talkahead.port.http" . }}
    - --deadline={{ include "talkahead.syllableDeadline" . }}
timeoutSeconds: {{ int .Values.probes.timeoutSeconds }}
{{- end -}}
