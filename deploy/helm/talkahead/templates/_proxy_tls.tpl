{{/*
TLS of the proxy, both ways with one secret: clients see its certificate, and replicas where they ask for one. ca.crt signs
replicas, which must carry the name of their headless Service, and the clients that are let in.
*/}}

{{- define "talkahead.proxyConfig" -}}
{{- $config := .Files.Get "files/envoy.yaml" | replace "address: replicas," (printf "address: %s," (include "talkahead.grpcService" .)) -}}
{{- if .Values.tls.secret -}}
{{- range $side := list "clients" "replicas" -}}
{{- $line := printf "# TLS with %s: templates/_proxy_tls.tpl" $side -}}
{{- $indent := ternary 10 6 (eq $side "clients") -}}
{{- $socket := include (printf "talkahead.proxyTlsWith.%s" $side) $ | nindent (int $indent) | trim -}}
{{- $config = $config | replace $line $socket -}}
{{- end -}}
{{- end -}}
{{- $config -}}
{{- end -}}

{{- define "talkahead.proxySecret" -}}
{{- .Values.proxy.tlsSecret | default .Values.tls.secret -}}
{{- end -}}

{{- define "talkahead.proxyTlsWith.clients" -}}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
    {{- if .Values.tls.clientCertificates }}
    require_client_certificate: true
    {{- end }}
    common_tls_context:
      alpn_protocols: [h2]
      {{- include "talkahead.proxyCertificate" . | nindent 6 }}
      {{- if .Values.tls.clientCertificates }}
      validation_context:
        trusted_ca: {filename: /etc/talkahead/tls/ca.crt}
      {{- end }}
{{- end -}}

{{- define "talkahead.proxyTlsWith.replicas" -}}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: {{ include "talkahead.grpcService" . }}
    common_tls_context:
      alpn_protocols: [h2]
      {{- include "talkahead.proxyCertificate" . | nindent 6 }}
      validation_context:
        trusted_ca: {filename: /etc/talkahead/tls/ca.crt}
        match_typed_subject_alt_names:
          - {san_type: DNS, matcher: {exact: {{ include "talkahead.grpcService" . }}}}
{{- end -}}

{{- define "talkahead.proxyCertificate" -}}
tls_certificates:
  - certificate_chain: {filename: /etc/talkahead/tls/tls.crt}
    private_key: {filename: /etc/talkahead/tls/tls.key}
{{- end -}}
