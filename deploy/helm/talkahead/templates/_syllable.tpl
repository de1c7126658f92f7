{{/*
A syllable by the way that clients take. Triton's own health pages call a server ready whose models have died or hang.
A server that refuses is well: it has no room, or speaks like recordings alone; killing a full one would end its
streams. The launcher judges its own syllables alike (launcher/path_watch.py). Urgent, for at the end of a crowd it would
say how long that is.
*/}}
{{- define "talkahead.syllable" -}}
exec:
  command:
    - sh
    - -c
    - |
      said=$(talkahead-say --server 127.0.0.1:{{ include "talkahead.port.grpc" . }} --max-seconds 0.5 --urgency 3 --deadline {{ int .Values.probes.deadlineSeconds }} -o - "Ready." 2>&1 > /dev/null) && exit 0
      case "$said" in *"RESOURCE_EXHAUSTED: "* | *"INVALID_ARGUMENT: "*) exit 0 ;; esac
      echo "$said" >&2
      exit 1
timeoutSeconds: {{ include "talkahead.probeTimeout" . }}
{{- end -}}
